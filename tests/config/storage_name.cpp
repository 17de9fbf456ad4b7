// The tag by which jobs of one name are distinguished.
#include "agent/config/job.hpp"

#include <gtest/gtest.h>

#include <map>

#include "tests/config/smallest.hpp"

namespace spotter::config {
namespace {

Job job_on(const std::string& storage) {
  const auto job =
      parse_job("job: a\ntrainer: {command: x}\nstorage: {" + storage + "}\n", as_root);
  EXPECT_TRUE(job) << describe(job.error(), "job.yaml");
  return job ? *job : Job{};
}

std::string name_on(const std::string& storage) { return storage_name(job_on(storage)); }

TEST(StorageName, IsTheTagOfTheVolumeOrThePlaceOfTheShare) {
  EXPECT_EQ(name_on("ebs: {tag: {Name: mnist-volume}}"), "Name=mnist-volume");
  EXPECT_EQ(name_on("folder: {path: /data}"), "folder:/data");
  EXPECT_EQ(name_on("nfs: {server: files.example.com, path: /export}"),
            "nfs:files.example.com/export");
  EXPECT_EQ(storage_name(Job{}), "");
}

TEST(StorageName, TwoAccessPointsOfOneFileSystemAreTwoStorages) {
  EXPECT_NE(name_on("efs: {id: fs-0123abcd, access_point: fsap-01, tls: true}"),
            name_on("efs: {id: fs-0123abcd, access_point: fsap-02, tls: true}"));
}

// EC2 takes 256 characters, and no half one.
TEST(StorageName, FitsIntoATagsValue) {
  Job job = job_on("ebs: {tag: {Name: v}}");
  job.storage.ebs.tag = {"Name", ""};
  for (int i = 0; i < 120; ++i) job.storage.ebs.tag.value += "é";
  EXPECT_EQ(storage_name(job), "Name=" + job.storage.ebs.tag.value);
  for (int i = 0; i < 120; ++i) job.storage.ebs.tag.value += "é";
  const std::string cut = storage_name(job);
  EXPECT_EQ(cut.size(), 255U) << "5 bytes and 125 characters of two";
  EXPECT_TRUE(cut.ends_with("é"));
}

TEST(StorageName, WhatHasNoSuchTagIsOfNoOtherStorage) {
  using Tags = std::map<std::string, std::string>;
  const Job job = job_on("ebs: {tag: {Name: v}}");
  EXPECT_FALSE(is_of_other_storage(Tags{}, job));
  EXPECT_FALSE(is_of_other_storage(Tags{{"spotter:storage", ""}}, job));
  EXPECT_FALSE(is_of_other_storage(Tags{{"spotter:storage", "Name=v"}}, job));
  EXPECT_TRUE(is_of_other_storage(Tags{{"spotter:storage", "Name=w"}}, job));
}

// On what is not kept, or not the job's alone, it would be lost, or kept for nothing.
TEST(UsersHome, IsInAVolumeAndAShareForThePackagesOwnUserAlone) {
  const auto at = [](const std::string& storage, const std::string& more = "") {
    auto job =
        parse_job("job: a\ntrainer: {command: x}\nstorage: {" + storage + "}\n" + more, as_root);
    EXPECT_TRUE(job) << describe(job.error(), "job.yaml");
    return job ? *job : Job{};
  };
  const Job job = at("ebs: {tag: {Name: v}}");
  EXPECT_EQ(job.trainer.user, own_user);
  EXPECT_TRUE(job.has_users_home());
  EXPECT_TRUE(at("folder: {path: /data}").has_users_home());
  EXPECT_FALSE(at("s3: s3://homes/jobs").has_users_home());
  EXPECT_FALSE(at("folder: {path: /data}", "gang: {size: 4, min: 2, at: s3://data/gangs}\n")
                   .has_users_home());
  for (auto change :
       {+[](Job& it) { it.trainer.user = "me"; }, +[](Job& it) { it.trainer.inherits = true; },
        +[](Job& it) { it.attempt = "attempt-1"; }}) {
    Job other = job;
    change(other);
    EXPECT_FALSE(other.has_users_home());
  }
}

}  // namespace
}  // namespace spotter::config

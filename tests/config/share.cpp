// Storage that is no volume, as people write it, and as they get it wrong.
#include <gtest/gtest.h>

#include "tests/config/smallest.hpp"

namespace spotter::config {
namespace {

std::string with_storage(const std::string& storage) {
  return "job: a\ntrainer: {command: x}\nstorage: {" + storage + "}\n";
}

Share share_of(const std::string& storage) {
  const auto job = parse_job(with_storage(storage), as_root);
  EXPECT_TRUE(job) << describe(job.error(), "job.yaml");
  return job && job->storage.share ? *job->storage.share : Share{};
}

TEST(Share, IsAFolder) {
  const auto job = parse_job(with_storage("folder: {path: /data/}"), as_root);
  ASSERT_TRUE(job);
  EXPECT_EQ(job->storage.share->kind, Share::Kind::Folder);
  EXPECT_EQ(job->storage.mount(), "/data");
  EXPECT_EQ(job->home(), "/data/a") << "jobs share it, each has a folder of its own";
  EXPECT_EQ(describe(job->storage), "the folder /data");
}

TEST(Share, IsNfs) {
  const Share nfs = share_of("nfs: {server: files.example.com, path: /export, options: nolock}");
  EXPECT_EQ(nfs.kind, Share::Kind::Nfs);
  EXPECT_EQ(nfs.mount, "/mnt/spotter");
  EXPECT_EQ(nfs.options, "nolock");
  EXPECT_EQ(describe(Storage{{}, nfs, {}, {}}), "/mnt/spotter (nfs of files.example.com:/export)");
}

TEST(Share, IsABucketWithAFolderHere) {
  const auto job = parse_job(with_storage("s3: 's3://bucket/jobs'"), as_root);
  ASSERT_TRUE(job) << describe(job.error(), "job.yaml");
  EXPECT_TRUE(job->storage.in_bucket());
  EXPECT_EQ(job->home(), "/var/lib/spotter-homes/a");
  EXPECT_EQ(*job->kept_at(), (wire::S3Location{"bucket", "jobs/homes/a/"}));
  EXPECT_EQ(*job->headed_at(), (wire::S3Location{"bucket", "jobs/heads/a/"}));
  EXPECT_EQ(share_of("s3: {at: s3://bucket, cache: /scratch}").mount, "/scratch");
  EXPECT_EQ(describe(job->storage), "the bucket s3://bucket/jobs/ (/var/lib/spotter-homes here)");
  EXPECT_FALSE(parse_job(with_storage("folder: {path: /d}"), as_root)->kept_at());
}

TEST(Share, OfABucketNeedsOneAndNoClaims) {
  const auto wrong = [](const std::string& text) {
    const auto job = parse_job(text, as_root);
    return job ? std::string() : describe(job.error(), "job.yaml");
  };
  EXPECT_NE(wrong(with_storage("s3: /data")), "");
  EXPECT_NE(wrong(with_storage("s3: {cache: /scratch}")).find("at"), std::string::npos);
  EXPECT_NE(wrong(with_storage("s3: 's3://bucket'") + "claims: {at: 's3://bucket/all'}\n")
                .find("not needed"),
            std::string::npos);
}

TEST(Share, OfABucketHasOneHomeForEachExperimentAndOneFolderInTurn) {
  const auto read = parse_job(with_storage("s3: 's3://bucket/jobs'") +
                                  "claims: {at: 's3://bucket/all'}\nsweep: {grid: {lr: [1, 2]}}\n",
                              as_root);
  ASSERT_TRUE(read) << describe(read.error(), "job.yaml");
  Job job = *read;
  EXPECT_TRUE(job.is_handed_out());
  job.experiment = {1, {}};
  EXPECT_EQ(job.home(), "/var/lib/spotter-homes/a/1") << "of an array each has a folder here";
  job.attempt = "attempt-3";
  EXPECT_EQ(*job.kept_at(), (wire::S3Location{"bucket", "jobs/homes/a/1/"}));
  EXPECT_EQ(*job.headed_at(), (wire::S3Location{"bucket", "jobs/heads/a/1/"}));
  EXPECT_EQ(job.home(), "/var/lib/spotter-homes/a/experiment");
  job.storage.share->kind = Share::Kind::Efs;
  EXPECT_EQ(job.home(), "/var/lib/spotter-homes/a/1/attempt-3");
}

TEST(Share, OfEfsTheFileSystemIsKnownByItsOwnName) {
  const auto id = [](const std::string& named) {
    return efs_file_system(share_of("efs: {id: " + named + "}"), "us-west-2");
  };
  EXPECT_EQ(id("fs-01ab"), "fs-01ab");
  EXPECT_EQ(id("fs-01ab.efs.us-west-2.amazonaws.com"), "fs-01ab");
  EXPECT_EQ(id("fs-01ab.efs.eu-west-1.amazonaws.com"), "") << "of another region";
  EXPECT_EQ(id("files.example.com"), "");
  EXPECT_EQ(efs_file_system(share_of("nfs: {server: fs-01ab, path: /x}"), "us-west-2"), "");
}

TEST(Share, WhatMountsItFollowsFromItsKindAndOptions) {
  EXPECT_EQ(mount_tool(share_of("folder: {path: /data}")), "");
  EXPECT_EQ(mount_tool(share_of("nfs: {server: files, path: /x, options: \"tls,iam\"}")),
            "mount.nfs");
  EXPECT_EQ(mount_tool(share_of("sshfs: {source: \"me@host:/x\"}")), "sshfs");
  EXPECT_EQ(mount_tool(share_of("efs: {id: fs-01ab, options: timeo=600}")), "mount.nfs");
  for (const char* more : {"tls: true", "access_point: fsap-02cd", "options: iam",
                           "options: \"timeo=600,az=us-west-2a\""})
    EXPECT_EQ(mount_tool(share_of("efs: {id: fs-01ab, " + std::string(more) + "}")), "mount.efs")
        << more;
}

TEST(Share, AnOptionHasAValueOrIsThereOrIsNot) {
  const Share share = share_of("efs: {id: fs-01ab, options: \"iam,az=us-west-2a\"}");
  EXPECT_EQ(mount_option(share, "iam"), "");
  EXPECT_EQ(mount_option(share, "az"), "us-west-2a");
  EXPECT_EQ(mount_option(share, "a"), std::nullopt);
}

TEST(Share, IsEfsByIdOrName) {
  const Share efs = share_of("efs: {id: fs-01ab, access_point: fsap-02cd, tls: true, mount: /m/e}");
  EXPECT_EQ(efs.kind, Share::Kind::Efs);
  EXPECT_EQ(efs.server, "fs-01ab");
  EXPECT_EQ(efs.access_point, "fsap-02cd");
  EXPECT_TRUE(efs.tls);
  EXPECT_EQ(efs.mount, "/m/e");
  EXPECT_EQ(share_of("efs: {id: fs-01ab.efs.us-west-2.amazonaws.com}").server,
            "fs-01ab.efs.us-west-2.amazonaws.com");
}

TEST(Share, IsSshfs) {
  const Share sshfs = share_of(
      "sshfs: {source: 'me@host:/opt/host', key: /etc/id, known_hosts: /etc/known, port: 2222}");
  EXPECT_EQ(sshfs.kind, Share::Kind::Sshfs);
  EXPECT_EQ(sshfs.server, "me@host");
  EXPECT_EQ(sshfs.path, "/opt/host");
  EXPECT_EQ(sshfs.key, "/etc/id");
  EXPECT_EQ(sshfs.known_hosts, "/etc/known");
  EXPECT_EQ(sshfs.port, 2222);
}

TEST(Share, MayBeSharedOutByClaims) {
  const auto job =
      parse_job(with_storage("folder: {path: /data}") + "claims: {at: 's3://bucket/all'}", as_root);
  ASSERT_TRUE(job) << describe(job.error(), "job.yaml");
  EXPECT_EQ(wire::to_url(job->claims->at), "s3://bucket/all/a/")
      << "below it, each job has its own";
  EXPECT_EQ(job->claims->lease, Duration(60'000));
  EXPECT_TRUE(job->is_handed_out());
  Job attempt = *job;
  attempt.attempt = "attempt-3";
  EXPECT_FALSE(attempt.is_handed_out());
  EXPECT_EQ(attempt.home(), "/data/a/attempt-3");
  attempt.experiment = {7, {}};
  EXPECT_EQ(attempt.home(), "/data/a/7/attempt-3");
  EXPECT_EQ(attempt.volumes_owner(), "a:7");
}

TEST(Share, ClaimsThatCannotWorkAreSaid) {
  const auto says = [](const std::string& text) {
    const auto job = parse_job(text, as_root);
    return job ? std::string() : describe(job.error(), "job.yaml");
  };
  const auto share = with_storage("folder: {path: /data}");
  EXPECT_NE(says(share + "claims: {at: /tmp}").find(":4:14: claims.at: "), std::string::npos);
  EXPECT_NE(says(share + "claims: {at: 's3://bucket', lease: 10ms}").find("it lasts from 1s to 1h"),
            std::string::npos);
  EXPECT_NE(says(share + "claims: {lease: 5s}").find("claims: the key 'at' is missing"),
            std::string::npos);
  const std::string volume =
      with_storage("ebs: {tag: {Name: v}}") + "claims: {at: 's3://bucket'}\n";
  EXPECT_NE(says(volume).find("a volume is attached to one instance at a time"), std::string::npos);
  EXPECT_EQ(says(volume + "sweep: {parameters: [{lr: 1}]}\n"), "");
}

struct WrongShare {
  const char* storage;
  const char* message;
};

class WrongShares : public testing::TestWithParam<WrongShare> {};

TEST_P(WrongShares, AreExplained) {
  const std::string said = problems_of(with_storage(GetParam().storage));
  EXPECT_NE(said.find(GetParam().message), std::string::npos) << said;
}

const WrongShare wrong_shares[] = {
    {"folder: {path: /a}, ebs: {tag: {Name: v}}",
     "exactly one of ebs, folder, nfs, efs, sshfs, s3, found 2"},
    {"folder: {path: data}", "storage.folder.path: 'data' is relative"},
    {"folder: {path: /a/../etc}", "must not have '..'"},
    {"folder: {}", "the key 'path' is missing"},
    {"nfs: {server: '-oroot', path: /x}", "storage.nfs.server: expected a host's name"},
    {"nfs: {server: h, path: x}", "storage.nfs.path: 'x' is relative"},
    {"nfs: {server: h, path: /x, options: 'a b'}", "is not a list of options"},
    {"nfs: {server: h, path: /x, options: ro}", "a job writes"},
    {"nfs: {server: h, path: /x, mount: /usr}", "is a directory of the system"},
    {"efs: {id: vol-1}", "expected a file system's id"},
    {"efs: {id: fs-1, access_point: fs-2}", "expected an access point's id"},
    {"efs: {id: fs-1, tls: perhaps}", "'perhaps' is not one of true, false"},
    {"sshfs: {source: host}", "'host' is not user@host:/path"},
    {"sshfs: {source: '-oProxyCommand=x:/y'}", "is not user@host:/path"},
    {"sshfs: {source: 'me@-x:/y'}", "is not user@host:/path"},
    {"sshfs: {source: 'h:/y', port: 65536}", "'65536' is no whole number from 1 to 65535"},
    {"sshfs: {source: 'h:/y', port: 0}", "'0' is no whole number from 1 to 65535"},
    {"sshfs: {source: 'h:/y', options: StrictHostKeyChecking=no}", "the server's key is always"},
    {"sshfs: {source: 'h:/y', options: 'reconnect,UserKnownHostsFile=/dev/null'}",
     "the server's key is always"},
};
INSTANTIATE_TEST_SUITE_P(Shares, WrongShares, testing::ValuesIn(wrong_shares));

}  // namespace
}  // namespace spotter::config

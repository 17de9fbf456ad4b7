// Jobs that can never work on the machines of `launch:`, and the sentence that mends each.
#include "agent/launch/machines.hpp"

#include <gtest/gtest.h>

namespace spotter::launch {
namespace {

using Verdict = Finding::Verdict;

wire::WallTime at(const char* time) { return wire::parse_rfc3339(time).value(); }

wire::TypeSize type(const char* name, std::uint64_t gpus, const char* architecture = "x86_64") {
  return {.type = InstanceType(name),
          .vcpus = 4,
          .gpus = gpus,
          .architectures = {architecture},
          .most_volumes = 11,
          .needs_ena = true};
}

struct Story {
  config::Job job;
  Machines machines;

  Story() {
    job.launch.emplace();
    machines.types = {type("g5.xlarge", 1), type("p4d.24xlarge", 8)};
    machines.image = "ami-1";
    machines.seen.emplace();
    machines.seen->push_back({.id = "ami-1",
                              .state = "available",
                              .architecture = "x86_64",
                              .created = at("2026-01-01T00:00:00Z"),
                              .volumes = 1,
                              .ena = true});
    machines.now = at("2026-06-01T00:00:00Z");
  }
  wire::Image& image() { return machines.seen->front(); }

  // The findings of a check, but those that are well: "what: advice".
  std::string said(const std::string& check, Verdict verdict = Verdict::Fail) const {
    std::string text;
    for (const Finding& it : judge_machines(job, machines))
      if (it.check == check && it.verdict == verdict) text += it.what + ": " + it.advice;
    return text;
  }
  bool is_well() const {
    for (const Finding& it : judge_machines(job, machines))
      if (it.verdict != Verdict::Ok) return false;
    return true;
  }
};

TEST(Machines, OfAClusterArePutNearOneAnother) {
  Story story;
  story.job.launch->placement_group = config::own_placement_group;
  EXPECT_TRUE(story.is_well()) << "unknown";
  for (auto& it : story.machines.types) it.placements = {"cluster", "spread"};
  EXPECT_TRUE(story.is_well());
  story.machines.types[1].placements = {"spread"};
  EXPECT_EQ(story.said("placement group"),
            "a cluster placement group does not take p4d.24xlarge: remove p4d.24xlarge from "
            "launch.instance_types: a fleet may choose any of those named there");
  story.machines.types[0].placements = {"partition"};
  EXPECT_EQ(story.said("placement group"),
            "a cluster placement group does not take g5.xlarge, p4d.24xlarge: say "
            "`placement_group: none`");
  story.job.launch->placement_group = "mine";
  EXPECT_TRUE(story.is_well()) << "its strategy may be another";
  story.machines.named_strategy = "cluster";
  EXPECT_EQ(story.said("placement group"),
            "a cluster placement group does not take g5.xlarge, p4d.24xlarge: name a group of "
            "another strategy, or say `placement_group: none`");
  story.machines.named_strategy = "spread";
  EXPECT_EQ(story.said("placement group"),
            "a spread placement group does not take g5.xlarge: remove g5.xlarge from "
            "launch.instance_types: a fleet may choose any of those named there");
  story.job.launch->placement_group.clear();
  EXPECT_TRUE(story.is_well());
}

wire::TypeSize with_efa(const char* name, std::uint64_t efas, std::uint64_t cards) {
  wire::TypeSize made = type(name, 8);
  made.efas = efas;
  for (std::uint64_t i = 0; i < cards; ++i) made.cards.push_back(i);
  return made;
}

TEST(Machines, WithEfaHaveAnInterfaceOnEachCardOfIt) {
  EXPECT_EQ(interfaces_of(type("g5.xlarge", 1)), Interfaces());
  EXPECT_EQ(interfaces_of(with_efa("g5.xlarge", 0, 1)), Interfaces());
  EXPECT_EQ(interfaces_of(with_efa("c5n.18xlarge", 1, 1)), (Interfaces{{0, "efa"}}));
  EXPECT_EQ(interfaces_of(with_efa("hpc7a.96xlarge", 2, 2)),
            (Interfaces{{0, "efa"}, {1, "efa-only"}}));
  EXPECT_EQ(interfaces_of(with_efa("p6-b300.48xlarge", 2, 3)),
            (Interfaces{{0, "interface"}, {1, "efa-only"}, {2, "efa-only"}}));
  EXPECT_EQ(shared_interfaces({with_efa("a", 4, 4), with_efa("b", 2, 2)}).value(),
            (Interfaces{{0, "efa"}, {1, "efa-only"}}));
  EXPECT_FALSE(shared_interfaces({with_efa("a", 4, 4), with_efa("b", 2, 3)}));
  EXPECT_FALSE(shared_interfaces({with_efa("a", 4, 4), type("b", 1)}));
  EXPECT_FALSE(shared_interfaces({}));
}

TEST(Machines, WithoutEfaAreNamedWhereTheJobWantsIt) {
  Story story;
  story.machines.types = {with_efa("g5.xlarge", 0, 1), with_efa("p4d.24xlarge", 4, 4)};
  EXPECT_TRUE(story.is_well()) << "it does not want it";
  story.job.launch->efa = true;
  EXPECT_EQ(
      story.said("efa"),
      "there is no EFA on g5.xlarge: remove g5.xlarge from launch.instance_types: a fleet may "
      "choose any of those named there");
  story.machines.types = {with_efa("p4d.24xlarge", 4, 4)};
  EXPECT_EQ(story.said("efa", Verdict::Ok), "each instance gets 4 EFA interfaces: ");
  story.machines.types.push_back(with_efa("p5.48xlarge", 32, 32));
  EXPECT_EQ(story.said("efa", Verdict::Warn),
            "each instance gets 4 EFA interfaces, as many as all types have, and p5.48xlarge has "
            "32: name types with equally many");
  story.machines.types = {with_efa("p4d.24xlarge", 4, 4), with_efa("p6-b300.48xlarge", 16, 17)};
  EXPECT_EQ(story.said("efa"),
            "no network interface with EFA fits each of p4d.24xlarge, p6-b300.48xlarge: name types "
            "whose network cards are alike, or leave out launch.efa");
  story.machines.types = {with_efa("g5.xlarge", 0, 1)};
  EXPECT_EQ(story.said("efa"),
            "there is no EFA on g5.xlarge: name instance types that have it, or leave out "
            "launch.efa");
  story.machines.types.clear();
  EXPECT_TRUE(story.is_well()) << "unknown";
}

TEST(Machines, ThatFitAreWell) {
  Story story;
  EXPECT_TRUE(story.is_well());
  story.job.trainer.gpus = 1;
  EXPECT_TRUE(story.is_well());
  story.job.trainer.gpus = all_gpus;
  EXPECT_TRUE(story.is_well());
}

TEST(Machines, TooFewGpusOfOneTypeNameThatType) {
  Story story;
  story.job.trainer.gpus = 8;
  EXPECT_EQ(story.said("gpus"),
            "trainer.gpus is 8, and g5.xlarge has 1: remove g5.xlarge from "
            "launch.instance_types: a fleet may choose any of those named there");
}

TEST(Machines, TooFewGpusOfAllTypesNameTheMost) {
  Story story;
  story.machines.types = {type("g5.xlarge", 1), type("m5.large", 0)};
  story.job.trainer.gpus = 8;
  EXPECT_EQ(story.said("gpus"),
            "trainer.gpus is 8, and g5.xlarge has 1, m5.large has none: name instance types with "
            "8 GPUs or more, or say `gpus: 1`");
}

TEST(Machines, AutoWithoutAnyGpuIsAWarning) {
  Story story;
  story.machines.types = {type("m5.large", 0)};
  story.job.trainer.gpus = all_gpus;
  EXPECT_EQ(story.said("gpus", Verdict::Warn),
            "trainer.gpus is auto, and m5.large has none: name instance types with 1 GPU or more");
  EXPECT_EQ(story.said("gpus"), "");
}

TEST(Machines, AnImageOfAnotherArchitecture) {
  Story story;
  story.image().architecture = "arm64";
  EXPECT_EQ(story.said("architecture"),
            "the image ami-1 is of arm64, and g5.xlarge is of x86_64, p4d.24xlarge is of x86_64: "
            "name another, or instance types of arm64");
  story.machines.types = {type("g5.xlarge", 1), type("g5g.xlarge", 1, "arm64")};
  EXPECT_EQ(story.said("architecture"),
            "the image ami-1 is of arm64, and g5.xlarge is of x86_64: remove g5.xlarge from "
            "launch.instance_types: a fleet may choose any of those named there");
}

TEST(Machines, ASystemThatRunsNoUserDataIsRefusedByItsName) {
  Story story;
  story.image().name = "debian-12-amd64-20260101-1234";
  EXPECT_TRUE(story.is_well());
  for (const char* name : {"bottlerocket-aws-k8s-1.32-x86_64-v1.40.0",
                           "Flatcar-stable-4000.2.0-hvm", "fedora-coreos-42.20260101.3.0-x86_64",
                           "talos-v1.11.0-us-west-2-amd64", "amzn-ec2-macos-15.1"}) {
    story.image().name = name;
    EXPECT_EQ(story.said("image"), "ami-1 is " + std::string(name) +
                                       ", which has no cloud-init, which alone runs user data: "
                                       "name an image of Debian, Ubuntu or Amazon Linux 2023: "
                                       "spotter-aws(7), IMAGES");
  }
  story.image().name = "my own";
  story.image().is_windows = true;
  EXPECT_NE(story.said("image").find("ami-1 is Windows"), std::string::npos);
}

TEST(Machines, ASystemThatIsTooOldIsDoubtful) {
  Story story;
  for (const char* name :
       {"amzn2-ami-hvm-2.0.20250101.0-x86_64-gp2", "debian-11-amd64-20250101-1234",
        "ubuntu/images/hvm-ssd/ubuntu-focal-20.04-amd64-server-20250101",
        "Deep Learning OSS Nvidia Driver AMI GPU PyTorch 2.3.1 (Ubuntu 20.04) 20250101"}) {
    story.image().name = name;
    EXPECT_EQ(story.said("image"), "");
    EXPECT_NE(story.said("image", Verdict::Warn).find("has a C library before 2.34"),
              std::string::npos);
  }
}

TEST(Machines, APackageOfAnotherArchitecture) {
  Story story;
  story.job.launch->package.source = "s3://bucket/spotter_0.1.0_arm64.deb";
  EXPECT_EQ(story.said("architecture"),
            "launch.package is of arm64, and the image ami-1 is of x86_64: name the package of "
            "x86_64 (scripts/package makes packages), or an image and instance types of arm64");
  story.machines.seen.reset();
  EXPECT_EQ(story.said("architecture"),
            "launch.package is of arm64, and g5.xlarge is of x86_64, p4d.24xlarge is of x86_64: "
            "name another, or instance types of arm64");
}

TEST(Machines, OfSeveralPackagesOneArchitectureIsJudged) {
  Story story;
  story.machines.packages = {"/p/spotter_1_arm64.deb", "/p/spotter-1-linux-aarch64.tar.gz"};
  EXPECT_EQ(story.said("architecture"),
            "launch.package is of arm64, and the image ami-1 is of x86_64: name the package of "
            "x86_64 (scripts/package makes packages), or an image and instance types of arm64");
  story.machines.packages.push_back("/p/spotter-1.x86_64.rpm");
  EXPECT_EQ(story.said("architecture"), "") << "the instances choose";
}

TEST(Machines, APackagesNameSaysItsArchitecture) {
  EXPECT_EQ(architecture_of_package("s3://b/spotter_1_amd64.deb"), "x86_64");
  EXPECT_EQ(architecture_of_package("s3://b/spotter-1.x86_64.rpm"), "x86_64");
  EXPECT_EQ(architecture_of_package("s3://b/spotter-1.aarch64.rpm"), "arm64");
  for (const char* unknown : {"baked", "apt", "s3://b/spotter.deb", "s3://amd64.deb/x"})
    EXPECT_EQ(architecture_of_package(unknown), "") << unknown;
}

TEST(Machines, AnImageThatIsMissingOrNotAvailable) {
  Story story;
  story.image().state = "pending";
  EXPECT_EQ(story.said("image"), "ami-1 is pending: launch when it is available");
  story.image().state = "disabled";
  EXPECT_EQ(story.said("image"), "ami-1 is disabled: name another in launch.image");
  story.machines.seen->clear();
  EXPECT_EQ(story.said("image"),
            "this account sees no image ami-1 in this region: name one of this region in "
            "launch.image");
}

TEST(Machines, AnImageWithoutTheNetworksDriver) {
  Story story;
  story.image().ena = false;
  EXPECT_EQ(
      story.said("image"),
      "ami-1 has no ENA support, and does not start on g5.xlarge, p4d.24xlarge: name an image "
      "that has it in launch.image");
}

TEST(Machines, AnOldImageIsAWarning) {
  const std::string newer = ": name a newer one in launch.image";
  Story story;
  story.image().created = at("2025-05-31T00:00:00Z");
  EXPECT_EQ(story.said("image", Verdict::Warn),
            "ami-1, x86_64, made on 2025-05-31, is older than a year" + newer);
  story.image().deprecated = at("2026-07-01T00:00:00Z");
  EXPECT_EQ(story.said("image", Verdict::Warn),
            "ami-1, x86_64, made on 2025-05-31, will be deprecated on 2026-07-01" + newer);
  story.image().deprecated = at("2026-05-01T00:00:00Z");
  EXPECT_EQ(story.said("image", Verdict::Warn),
            "ami-1, x86_64, made on 2025-05-31, is deprecated since 2026-05-01" + newer);
  EXPECT_EQ(story.said("image"), "") << "it starts all the same";
}

TEST(Machines, MoreVolumesThanATypeTakes) {
  Story story;
  story.job.storage.data.resize(9);
  EXPECT_TRUE(story.is_well());
  story.machines.types[0].most_volumes = 25;
  story.job.storage.data.resize(10);
  EXPECT_EQ(story.said("attachments"),
            "an instance gets 12 volumes, the system's included, and p4d.24xlarge takes 11: remove "
            "p4d.24xlarge from launch.instance_types: a fleet may choose any of those named there");
  story.machines.types[1].most_volumes.reset();
  EXPECT_TRUE(story.is_well()) << "what is unknown is not judged";
}

// ECS registers of a type: m5.large 7680 to 7764 of 8192 MiB, c5.large 3703 to 3788 of 4096.
TEST(Machines, ASetOnBatchThatNoTypeCanHoldIsSaidBeforeItCosts) {
  const auto judged = [](int vcpus, int memory, int gpus, std::vector<wire::TypeSize> types) {
    config::Batch batch;
    batch.definition.vcpus = vcpus;
    batch.definition.memory = memory;
    batch.definition.gpus = gpus;
    return judge_batch(batch, types).front();
  };
  const auto type = [](const char* name, std::uint64_t vcpus, std::uint64_t gpus,
                       std::uint64_t mebibytes) {
    wire::TypeSize made{InstanceType(name), vcpus, gpus};
    made.mebibytes = mebibytes;
    return made;
  };
  const auto g5 = type("g5.xlarge", 4, 1, 16384), m5 = type("m5.large", 2, 0, 8192);
  EXPECT_EQ(judged(4, 15000, 1, {g5}).verdict, Finding::Verdict::Ok);
  EXPECT_EQ(judged(2, 7500, 0, {m5}).verdict, Finding::Verdict::Ok);
  EXPECT_EQ(judged(2, 7800, 0, {m5}).verdict, Finding::Verdict::Warn);
  EXPECT_EQ(judged(2, 3700, 0, {type("c5.large", 2, 0, 4096)}).verdict, Finding::Verdict::Warn);
  const auto whole = judged(4, 16384, 1, {g5});
  EXPECT_EQ(whole.verdict, Finding::Verdict::Fail);
  EXPECT_EQ(whole.what,
            "one set asks for 4 vCPUs, 1 GPU and 16384 MiB, and of sweep.batch.instance_types "
            "g5.xlarge has 4 vCPUs, 1 GPU and 16384 MiB, of which Linux and ECS keep some percent: "
            "the sets would wait for ever as RUNNABLE");
  EXPECT_EQ(whole.advice, "say `memory: 15364` or less, or name larger types");
  EXPECT_EQ(judged(8, 1000, 0, {g5, m5}).verdict, Finding::Verdict::Fail) << "vCPUs";
  EXPECT_EQ(judged(1, 1000, 2, {g5, m5}).advice, "ask for less, or name larger types");
  EXPECT_EQ(judged(4, 1000, 1, {m5, g5}).verdict, Finding::Verdict::Ok) << "one of them is enough";
  EXPECT_EQ(judged(4, 12000, 0, {type("a", 4, 0, 8192), type("b", 2, 0, 65536)}).verdict,
            Finding::Verdict::Fail)
      << "no single type has both";
  EXPECT_EQ(judged(1, 1, 0, {}).verdict, Finding::Verdict::Fail);
  EXPECT_EQ(judged(4, 99999, 0, {type("unknown", 4, 0, 0)}).verdict, Finding::Verdict::Ok);
}

TEST(Machines, WhatIsUnknownIsNotJudged) {
  Story story;
  story.machines = {};
  story.job.trainer.gpus = 8;
  story.job.launch->package.source = "s3://bucket/spotter_0.1.0_arm64.deb";
  EXPECT_TRUE(judge_machines(story.job, story.machines).empty());
}

}  // namespace
}  // namespace spotter::launch

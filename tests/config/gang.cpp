// `gang:` of job.yaml, and the command that torchrun gets.
#include "agent/config/gang.hpp"

#include <gtest/gtest.h>

#include "agent/base/text.hpp"
#include "agent/config/run.hpp"
#include "tests/config/smallest.hpp"

namespace spotter::config {
namespace {

const std::string gang_on_folder =
    "job: a\nstorage: {folder: {path: /data}}\ntrainer: {command: x}\n";

std::string gang_problem(const std::string& text) {
  const auto job = parse_job(text, as_root);
  return job ? "" : describe(job.error(), "job.yaml");
}

TEST(Gang, IsDescribed) {
  const auto job = parse_job(
      gang_on_folder + "gang: {size: 4, min: 2, at: 's3://bucket/all', lease: 20s}\n", as_root);
  ASSERT_TRUE(job) << describe(job.error(), "job.yaml");
  EXPECT_EQ(job->gang->size, 4);
  EXPECT_EQ(job->gang->min, 2);
  EXPECT_EQ(wire::to_url(job->gang->at), "s3://bucket/all/a/");
  EXPECT_EQ(job->gang->lease, Duration(20'000));
  EXPECT_EQ(job->trainers_home(), "/data/a");
}

TEST(Gang, NeedsAllOfItsMachinesUnlessItSaysLess) {
  const auto job = parse_job(gang_on_folder + "gang: {size: 4, at: 's3://bucket'}\n", as_root);
  ASSERT_TRUE(job);
  EXPECT_EQ(job->gang->min, 4);
  EXPECT_EQ(wire::to_url(job->gang->at), "s3://bucket/a/");
}

TEST(Gang, LooksForRanksThatHangUnlessItSaysNever) {
  const auto passed = [](const std::string& more) {
    const auto job =
        parse_job(gang_on_folder + "gang: {size: 2, at: 's3://bucket'" + more + "}\n", as_root);
    EXPECT_TRUE(job) << describe(job.error(), "job.yaml");
    const auto words = job ? in_gang(*job, "spotter", "x") : "";
    const auto from = words.find(" --stall ");
    return from == words.npos ? "" : words.substr(from, words.find(" --", from + 1) - from);
  };
  const auto stall = [](const char* ms) { return " --stall " + wire::shell_quoted(ms); };
  EXPECT_EQ(passed(""), stall("600000"));
  EXPECT_EQ(passed(", stall: 30s"), stall("30000"));
  EXPECT_EQ(passed(", stall: 1h30m"), stall("5400000"));
  for (const char* off : {"never", "0", "0s"})
    EXPECT_EQ(passed(std::string(", stall: ") + off), stall("0")) << off;
}

TEST(Gang, MembersHaveFoldersOfTheirOwnInOneHome) {
  auto job = *parse_job(gang_on_folder + "gang: {size: 2, at: 's3://bucket'}\n", as_root);
  job.member = "m1";
  EXPECT_EQ(job.home(), "/data/a/members/m1");
  EXPECT_EQ(job.trainers_home(), "/data/a");
}

TEST(Gang, ThatIsWrongIsExplained) {
  const auto says = [](const std::string& more, const std::string& words) {
    const auto problem = gang_problem(gang_on_folder + more);
    EXPECT_NE(problem.find(words), problem.npos) << more << "\n" << problem;
  };
  says("gang: {size: 0, at: 's3://b'}\n", "gang.size");
  says("gang: {size: 2}\n", "'at'");
  says("gang: {size: 2, min: 3, at: 's3://b'}\n", "gang.min: is more than gang.size");
  says("gang: {size: 2, at: 's3://b', lease: 1s}\n", "lasts from 6s to 1h");
  says("gang: {size: 2, at: 's3://b', stall: 29s}\n", "gang.stall: '29s': a step may take long");
  says("gang: {size: 2, at: 's3://b', stall: 600}\n", "'600' has no unit");
  says("gang: {size: 2, at: 's3://b', stall: no}\n", "`never` turns it off");
  says("gang: {size: 2, at: /mnt/b}\n", "gang.at");
  says("gang: {size: 2, at: 's3://b'}\nclaims: {at: 's3://b'}\n",
       "claims: is not for a job with `gang:`");
  says("gang: {size: 2, at: 's3://b'}\npublish: 's3://b'\n",
       "publish: is not for a job with `gang:`");
  says("gang: {size: 2, at: 's3://b'}\ncheckpoints: {files: '*.pt'}\n",
       "needs checkpoints of libspotter");
  const auto on_volume = gang_problem(
      "job: a\nstorage: {ebs: {tag: {Name: a}}}\ntrainer: {command: x}\ngang: {size: 2, at: "
      "'s3://b'}\n");
  EXPECT_NE(on_volume.find("needs a home that all its machines reach"), on_volume.npos)
      << on_volume;
  const auto in_bucket = gang_problem(
      "job: a\nstorage: {s3: 's3://b/p'}\ntrainer: {command: x}\ngang: {size: 2, at: 's3://b'}\n");
  EXPECT_NE(in_bucket.find("needs a home that all its machines reach"), in_bucket.npos)
      << in_bucket;
}

const std::string gang_on_fleet = gang_on_folder +
                                  "gang: {size: 4, min: 2, at: 's3://bucket/all'}\n"
                                  "launch: {image: ami-1, instance_types: g5.xlarge, profile: p";

TEST(Gang, IsLaunchedAsOneFleetWithTheZoneFirstNamedPreferred) {
  const auto launched = [](const std::string& more) {
    const auto job = parse_job(gang_on_fleet + more + "}\n", as_root);
    EXPECT_TRUE(job) << describe(job.error(), "job.yaml");
    return job ? *job->launch : Launch{};
  };
  EXPECT_EQ(launched("").capacity, 4);
  EXPECT_EQ(launched(", capacity: 4").capacity, 4);
  EXPECT_EQ(launched(", zones: [a, b]").allocation, Allocation::CapacityOptimized);
  EXPECT_EQ(launched(", subnets: [a, b]").allocation, Allocation::CapacityOptimized);
  EXPECT_EQ(launched(", zones: [a]").allocation, Allocation::PriceCapacityOptimized);
  EXPECT_EQ(launched(", zones: [a, b], allocation: lowestPrice").allocation,
            Allocation::LowestPrice);
}

TEST(Gang, IsPutIntoAPlacementGroupWhereItSaysSo) {
  const auto group = [](const std::string& more) {
    const auto job = parse_job(gang_on_fleet + more + "}\n", as_root);
    EXPECT_TRUE(job) << describe(job.error(), "job.yaml");
    return job ? job->launch->placement_group : "?";
  };
  EXPECT_EQ(group(""), "");
  EXPECT_EQ(group(", placement_group: none"), "");
  EXPECT_EQ(group(", placement_group: own, zones: [a]"), own_placement_group);
  EXPECT_EQ(group(", placement_group: mine, subnets: [subnet-1]"), "mine");
  EXPECT_NE(gang_problem("job: a\nstorage: {folder: {path: /data}}\ntrainer: {command: x}\nlaunch: "
                         "{image: ami-1, instance_types: g5.xlarge, profile: p, placement_group: "
                         "own}\n")
                .find("is for a job with `gang:`"),
            std::string::npos);
}

TEST(Gang, HasEfaInOneZoneWithASecurityGroup) {
  const std::string with = ", efa: true, zones: [a], security_groups: [sg-1]";
  const auto job = parse_job(gang_on_fleet + with + "}\n", as_root);
  ASSERT_TRUE(job) << describe(job.error(), "job.yaml");
  EXPECT_TRUE(job->launch->efa);
  EXPECT_FALSE(parse_job(gang_on_fleet + "}\n", as_root).value().launch->efa);
  EXPECT_NE(gang_problem("job: a\nstorage: {folder: {path: /data}}\ntrainer: {command: x}\nlaunch: "
                         "{image: ami-1, instance_types: g5.xlarge, profile: p, efa: true}\n")
                .find("launch.efa: is for a job with `gang:`"),
            std::string::npos);
}

TEST(Gang, IsNotLaunchedAsWhatCannotBeOne) {
  const auto says = [](const std::string& more, const std::string& words) {
    const auto problem = gang_problem(gang_on_fleet + more + "}\n");
    EXPECT_NE(problem.find(words), problem.npos) << more << "\n" << problem;
  };
  says(", capacity: 3", "launch.capacity: is not gang.size");
  says(", placement_group: own", "launch.placement_group: lies in one zone");
  says(", placement_group: own, zones: [a, b]", "launch.placement_group: lies in one zone");
  says(", placement_group: 'a b', zones: [a]", "is no name of a placement group");
  says(", efa: true, zones: [a]", "launch.efa: needs `security_groups:`");
  says(", efa: true, zones: [a, b], security_groups: [sg-1]", "launch.efa: stays in one zone");
  says(", efa: true, security_groups: [sg-1]", "launch.efa: stays in one zone");
  says(", on_demand: after 5m", "one instance on demand is no gang");
  says(", type: auto-scaling-group, zones: [a, b]", "give a gang one zone or subnet");
  EXPECT_EQ(gang_problem(gang_on_fleet + ", type: auto-scaling-group, zones: [a]}\n"), "");
}

TEST(Gang, IsDoneWhenItsResultIsThere) {
  auto job = *parse_job(gang_on_folder + "gang: {size: 2, at: 's3://bucket'}\n", as_root);
  EXPECT_EQ(in_gang(job, "spotter", "x").find("--result"), std::string::npos);
  EXPECT_EQ(in_gang(job, "spotter", "x").find("--replaced"), std::string::npos);
  EXPECT_NE(in_gang(job, "spotter", "x", true).find(" --replaced "), std::string::npos);
  job.trainer.result = "result/it's.pt";
  EXPECT_NE(in_gang(job, "spotter", "x").find(" --result " + wire::shell_quoted("result/it's.pt")),
            std::string::npos);
}

TEST(Gang, TakesTorchrunWithItsRendezvous) {
  for (const auto& [given, taken] : std::initializer_list<std::pair<const char*, const char*>>{
           {"torchrun train.py --lr 0.1", "'python3' -m spotter.torchrun train.py --lr 0.1"},
           {"/opt/venv/bin/torchrun --nproc_per_node 8 train.py",
            "'/opt/venv/bin/python3' -m spotter.torchrun --nproc_per_node 8 train.py"},
           {"python train.py", "'python' -m spotter.torchrun train.py"},
           {"exec '/usr/bin/python3.11' '/my train.py' 'a b'",
            "exec '/usr/bin/python3.11' -m spotter.torchrun '/my train.py' 'a b'"},
           {"python3 -m torch.distributed.run train.py", "'python3' -m spotter.torchrun train.py"}})
    EXPECT_EQ(with_torchrun(given), taken);
  for (const char* given :
       {"python -m spotter.torchrun train.py", "./train.sh", "pythonic train.py",
        "A=1 torchrun train.py", "python -u train.py", "$PYTHON train.py", ""})
    EXPECT_EQ(with_torchrun(given), given);
}

TEST(Gang, NamesItsMembersAfterTheirMachines) {
  EXPECT_EQ(member_name("ip-10-0-0-1.internal"), "ip-10-0-0-1.internal");
  EXPECT_EQ(member_name("../a/b c"), "-a-b-c");
  EXPECT_EQ(member_name(""), "machine");
}

TEST(Run, KeepsItsHomeInTheBucketOfTheOption) {
  const auto job =
      command::job_of({.storage = "s3://lab/jobs", .name = "x", .command = {"true"}}, as_root, {});
  ASSERT_TRUE(job) << job.error().front().message;
  EXPECT_EQ(wire::to_url(job->kept_at().value()), "s3://lab/jobs/homes/x/");
}

TEST(Gang, IsJoinedByRun) {
  const auto run = [](const command::RunRequest& request) {
    return command::job_of(request, as_root, {});
  };
  const auto none = run({.storage = "/data", .member = "m1", .command = {"true"}});
  ASSERT_FALSE(none);
  EXPECT_NE(none.error().front().message.find("--gang is for a job with `gang:`"),
            std::string::npos);
}

}  // namespace
}  // namespace spotter::config

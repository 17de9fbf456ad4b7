// `launch:` of job.yaml.
#include "agent/config/launch.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/config/smallest.hpp"

namespace spotter::config {
namespace {

constexpr const char* launch_needs =
    "launch:\n  image: ami-0123\n  instance_types: [g5.xlarge, g4dn.xlarge]\n  profile: spotter\n";

std::string with_launch(const std::string& more) { return smallest_and(launch_needs + more); }

Launch launch_of(const std::string& more) {
  const auto job = parse_job(with_launch(more), as_root);
  EXPECT_TRUE(job) << describe(job.error(), "job.yaml");
  return job ? *job->launch : Launch{};
}

TEST(Launch, AsksForAnEc2FleetOfOneUnlessAskedOtherwise) {
  const Launch launch = launch_of("");
  EXPECT_EQ(launch.type, FleetKind::Ec2Fleet);
  EXPECT_EQ(launch.allocation, Allocation::PriceCapacityOptimized);
  EXPECT_EQ(launch.capacity, 1);
  EXPECT_EQ(launch.package.source, "baked");
  EXPECT_FALSE(launch.volume);
  EXPECT_EQ(launch.instance_types, (std::vector<std::string>{"g5.xlarge", "g4dn.xlarge"}));
}

TEST(Launch, ReadsWhatIsGiven) {
  const std::string digest(64, 'A');
  const Launch launch = launch_of(
      "  type: spot-fleet\n  fleet_role: arn:aws:iam::1:role/fleet\n  allocation: lowestPrice\n"
      "  max_price: 0.50\n  zones: [us-west-2a, us-west-2b]\n  security_groups: sg-1\n  key: mine\n"
      "  package: {s3: s3://packages/spotter.deb, sha256: " +
      digest +
      "}\n  volume: {size: 100, iops: 4000, kms_key: alias/mine, initialization_rate: 200}\n"
      "  tags: {project: '${WHO}'}\n");
  EXPECT_EQ(launch.type, FleetKind::SpotFleet);
  EXPECT_EQ(launch.allocation, Allocation::LowestPrice);
  EXPECT_EQ(launch.max_price, "0.50");
  EXPECT_EQ(launch.security_groups, std::vector<std::string>{"sg-1"});
  EXPECT_EQ(launch.package.sha256, std::string(64, 'a'));
  ASSERT_TRUE(launch.volume);
  EXPECT_EQ(launch.volume->zone, "us-west-2a");
  EXPECT_EQ(launch.volume->type, "gp3");
  EXPECT_TRUE(launch.volume->encrypted);
  EXPECT_EQ(launch.volume->initialization_rate, 200U);
  EXPECT_EQ(launch.tags.at("project"), "me");
}

TEST(Launch, PaysForAnInitializationRateAsJobYamlSays) {
  const auto rate = [](const std::string& text) {
    const std::string volume = "  zones: us-west-2a\n  volume: {size: 100" + text + "}\n";
    return launch_of(volume).volume->initialization_rate;
  };
  EXPECT_EQ(rate(""), std::nullopt);
  EXPECT_EQ(rate(", initialization_rate: auto"), std::nullopt);
  EXPECT_EQ(rate(", initialization_rate: none"), 0U);
  EXPECT_EQ(rate(", initialization_rate: 300"), 300U);
  for (const std::string wrong : {"99", "301", "yes", "200.5"}) {
    const std::string said = problems_of(with_launch(
        "  zones: us-west-2a\n  volume: {size: 100, initialization_rate: " + wrong + "}\n"));
    EXPECT_NE(said.find("'" + wrong + "' is not auto, none or a whole number from 100 to 300"),
              said.npos)
        << said;
  }
}

constexpr const char* with_deadline =
    "  on_demand: when-needed\n  work: 40h\nwithin: 2d\npublish: s3://bucket/jobs\n";

std::string said_of(const std::string& more) { return problems_of(with_launch(more)); }

TEST(Launch, IsOnDemandWhenADeadlineAsksForIt) {
  const auto job = parse_job(with_launch(with_deadline), as_root);
  ASSERT_TRUE(job) << describe(job.error(), "job.yaml");
  EXPECT_EQ(job->launch->on_demand.when, OnDemand::When::WhenNeeded);
}

TEST(Launch, OnDemandWhenNeededNeedsToKnowTheDeadlineAndTheWork) {
  const std::string said = said_of("  on_demand: when-needed\n");
  EXPECT_NE(said.find("needs a deadline: `finish_by: 2026-12-04T18:00Z`"), said.npos) << said;
  EXPECT_NE(said.find("needs `launch.work`"), said.npos) << said;
  EXPECT_NE(said.find("needs `publish: s3://bucket/prefix`"), said.npos) << said;
  const std::string two = said_of("  capacity: 2\n" + std::string(with_deadline));
  EXPECT_NE(two.find("is for one instance and one training"), two.npos) << two;
  EXPECT_NE(said_of("  work: soon\n").find("launch.work: 'soon' is not a duration"), said.npos);
  EXPECT_NE(said_of("  on_demand: after 1ms\n").find("wait for at least 1s"), said.npos);
}

const std::string of_a_bucket =
    "job: mnist\nstorage: {s3: s3://bucket/jobs}\ntrainer: {command: python train.py}\n"
    "within: 2d\npublish: s3://bucket/seen\n"
    "launch:\n  image: resolve:ssm:/aws/service/debian/12\n  profile: spotter\n  work: 40h\n";
const std::string two_regions =
    "  on_demand: when-needed\n"
    "  pools: [{types: [g5.xlarge, g6.xlarge], zones: [us-west-2a, us-west-2b], key: mine}, "
    "{region: us-east-2, types: g5.xlarge, security_groups: [sg-1]}]\n";

TEST(Launch, HasPoolsInSeveralRegions) {
  const auto job = parse_job(of_a_bucket + two_regions, as_root);
  ASSERT_TRUE(job) << describe(job.error(), "job.yaml");
  const Launch& launch = *job->launch;
  ASSERT_EQ(launch.places.size(), 2u);
  EXPECT_EQ(launch.instance_types, (std::vector<std::string>{"g5.xlarge", "g6.xlarge"}));
  EXPECT_EQ(launch.zones, (std::vector<std::string>{"us-west-2a", "us-west-2b"}));
  const Launch there = launch_at(launch, 1);
  EXPECT_EQ(there.region, "us-east-2");
  EXPECT_EQ(there.instance_types, std::vector<std::string>{"g5.xlarge"});
  EXPECT_EQ(there.zones, std::vector<std::string>{});
  EXPECT_EQ(there.security_groups, std::vector<std::string>{"sg-1"});
  EXPECT_EQ(there.key + there.image, "resolve:ssm:/aws/service/debian/12");
  EXPECT_EQ(launch_at(launch, 0).security_groups, std::vector<std::string>{});
  std::string turned = two_regions;  // the first region's groups are not the second one's
  turned.replace(turned.find("key: mine"), 9, "security_groups: [sg-0]");
  turned.replace(turned.find(", security_groups: [sg-1]"), 25, "");
  const auto other = parse_job(of_a_bucket + turned, as_root);
  ASSERT_TRUE(other) << describe(other.error(), "job.yaml");
  EXPECT_EQ(launch_at(*other->launch, 0).security_groups, std::vector<std::string>{"sg-0"});
  EXPECT_EQ(launch_at(*other->launch, 1).security_groups, std::vector<std::string>{});
}

TEST(Launch, OfPoolsSaysWhatDoesNotFit) {
  const auto said = [](const std::string& more) { return problems_of(of_a_bucket + more); };
  const auto expect = [&](const std::string& more, const std::string& what) {
    EXPECT_NE(said(more).find(what), std::string::npos) << more << said(more);
  };
  EXPECT_EQ(said(two_regions), "");
  expect("", "launch: the key 'instance_types' is missing");
  expect(two_regions + "  zones: [us-west-2a]\n", "leave out launch.zones");
  expect(two_regions + "  key: mine\n", "security_groups and key are of one region");
  expect(two_regions + "  type: auto-scaling-group\n", "does not wait at target 0");
  expect("  pools: []\n", "expected a list of pools");
  expect("  pools: [{region: us-east-2}]\n", "launch.pools[0]: the key 'types' is missing");
  expect("  pools: [{region: Ohio, types: g5.xlarge}]\n", "expected a region such as");
  expect("  pools: [{types: g5.xlarge}, {types: g6.xlarge}]\n",
         "give all types and zones of a region in one entry");
  expect("  pools: [{types: g5.xlarge}, {region: us-east-2, types: g5.xlarge}]\n",
         "pools in several regions need `on_demand: when-needed`");
  std::string by_id = of_a_bucket + two_regions;
  by_id.replace(by_id.find("resolve:ssm:/aws/service/debian/12"), 34, "ami-0123");
  EXPECT_NE(problems_of(by_id).find("image: ami-0123 is of one region"), std::string::npos);
  std::string on_a_volume = of_a_bucket + two_regions;
  on_a_volume.replace(on_a_volume.find("{s3: s3://bucket/jobs}"), 22, "{ebs: {tag: {Name: a}}}");
  EXPECT_NE(problems_of(on_a_volume).find("several regions need `storage: {s3:"),
            std::string::npos);
}

Deadline deadline_in(const std::string& text) {
  const auto job = parse_job(text, as_root);
  EXPECT_TRUE(job) << describe(job.error(), "job.yaml");
  return job ? job->deadline : Deadline{};
}

TEST(Deadline, HasTheDollarsAsGiven) {
  const Deadline deadline = deadline_in(with_launch("  start: 5m\n" + std::string(with_deadline) +
                                                    "limits: {dollars: 50, gives_way: dollars}\n"));
  EXPECT_EQ(deadline.work, std::chrono::hours(40));
  EXPECT_EQ(deadline.within, std::chrono::hours(48));
  EXPECT_EQ(deadline.start, std::chrono::minutes(5));
  EXPECT_EQ(deadline.dollars, 50);
  EXPECT_EQ(deadline.gives_way, Deadline::GivesWay::Dollars);
  EXPECT_FALSE(deadline_in(smallest_and("")).is_set());
}

TEST(Deadline, IsATimeWithItsZone) {
  const auto at = [](const std::string& text) {
    const std::string wrong = problems_of(smallest_and("finish_by: " + text + "\n"));
    if (!wrong.empty()) return wrong;
    return wire::to_rfc3339(*deadline_in(smallest_and("finish_by: " + text + "\n")).finish_by);
  };
  EXPECT_EQ(at("2026-12-04T18:00Z"), "2026-12-04T18:00:00Z");
  EXPECT_EQ(at("2026-12-04T18:00:30.5+01:00"), "2026-12-04T17:00:30Z");
  EXPECT_EQ(at("2026-12-04T18:00+01:00"), "2026-12-04T17:00:00Z");
  for (const char* wrong : {"2026-12-04T18:00", "2026-12-04", "Friday", "2026-02-30T18:00Z"})
    EXPECT_NE(at(wrong).find("is no time with its zone, such as"), std::string::npos) << wrong;
  EXPECT_NE(problems_of(smallest_and("finish_by: 2026-12-04T18:00Z\nwithin: 36h\n"))
                .find("finish_by is given, too: which is it?"),
            std::string::npos);
}

TEST(Deadline, IsATimeFromTheFirstLaunch) {
  const Deadline deadline = deadline_in(smallest_and("within: 36h\n"));
  EXPECT_EQ(deadline.within, std::chrono::hours(36));
  EXPECT_FALSE(deadline.finish_by) << "it is no moment before the job is launched";
  const auto wrong = [](const char* text) {
    return problems_of(smallest_and("within: " + std::string(text) + "\n"));
  };
  EXPECT_NE(wrong("soon").find("within: 'soon' is not a duration"), std::string::npos);
  EXPECT_NE(wrong("0s"), "") << "that is no time at all";
}

TEST(Deadline, WhatGivesWayIsOfADeadlineAndABudget) {
  const auto limit = [](const char* first) {
    const auto job = parse_job(
        smallest_and("within: 36h\nlimits: {dollars: 50, gives_way: " + std::string(first) + "}\n"),
        as_root);
    return job ? job->limits.dollars : std::optional<double>(-1);
  };
  EXPECT_EQ(limit("deadline"), 50);
  EXPECT_EQ(limit("dollars"), std::nullopt) << "agents go on above it";
  for (const char* one : {"limits: {dollars: 50, gives_way: dollars}\n",
                          "within: 36h\nlimits: {hours: 50, gives_way: deadline}\n"})
    EXPECT_NE(problems_of(smallest_and(one)).find("is for a job with both"), std::string::npos);
}

TEST(Launch, IsOnDemandNeverAlwaysOrAfterAWhile) {
  using When = OnDemand::When;
  EXPECT_EQ(launch_of("").on_demand.when, When::Never);
  EXPECT_EQ(launch_of("  on_demand: never\n").on_demand.when, When::Never);
  EXPECT_EQ(launch_of("  on_demand: always\n").on_demand.when, When::Always);
  const OnDemand after = launch_of("  on_demand: after 1h30m\n").on_demand;
  EXPECT_EQ(after.when, When::After);
  EXPECT_EQ(after.after, std::chrono::minutes(90));
}

TEST(Launch, RunsInACapacityReservation) {
  const std::string one = smallest_and(
      "launch:\n  image: ami-1\n  instance_types: [p5.48xlarge]\n  zones: [us-west-2a]\n"
      "  profile: p\n  capacity_reservation: {id: cr-0123456789abcdef0, kind: ");
  const auto job = parse_job(one + "interruptible}\n", as_root);
  ASSERT_TRUE(job && job->launch->reservation);
  EXPECT_EQ(job->launch->reservation->id, "cr-0123456789abcdef0");
  EXPECT_TRUE(job->launch->reservation->interruptible);
  EXPECT_FALSE(parse_job(one + "capacity-block}\n", as_root)->launch->reservation->interruptible);
  EXPECT_NE(problems_of(one + "rented}\n"), "");
  const std::string block = one + "capacity-block}\n";
  const auto said = [&](const std::string& more) { return problems_of(block + more); };
  EXPECT_NE(said("  on_demand: always\n").find("on_demand is of other capacity"),
            std::string::npos);
  EXPECT_NE(said("  max_price: 3\n").find("max_price is of other capacity"), std::string::npos);
  EXPECT_NE(said("  allocation: diversified\n").find("allocation is"), std::string::npos);
  EXPECT_NE(said("  type: auto-scaling-group\n").find("only `type: fleet`"), std::string::npos);
  const auto instead = [&](std::string from, const std::string& to) {
    std::string text = block;
    text.replace(text.find(from), from.size(), to);
    return problems_of(text);
  };
  EXPECT_NE(instead("[p5.48xlarge]", "[p5.48xlarge, p4d.24xlarge]").find("one instance type"),
            std::string::npos);
  EXPECT_NE(instead("  zones: [us-west-2a]\n", "").find("is in one zone"), std::string::npos);
  EXPECT_NE(instead("cr-0123456789abcdef0", "r-1").find("expected a capacity reservation's id"),
            std::string::npos);
}

// On a volume EBS lets one write; two fleets on a share would both have a first instance.
TEST(Launch, OnDemandAfterAWhileNeedsClaimsOnAShare) {
  const std::string on_share =
      "job: small\nstorage: {folder: {path: /data}}\ntrainer: {command: x}\n" +
      std::string(launch_needs);
  EXPECT_EQ(problems_of(on_share + "  on_demand: always\n"), "");
  EXPECT_NE(problems_of(on_share + "  on_demand: after 20m\n").find("needs `claims:` here"),
            std::string::npos);
  EXPECT_EQ(problems_of(on_share + "  on_demand: after 20m\nclaims: {at: s3://bucket/claims}\n"),
            "");
}

TEST(Launch, MayNameAUserWhomOnlyTheInstancesHave) {
  const Environment as_me{.variables = {}, .user = "me", .root = false};
  const std::string job =
      "job: small\nstorage: {ebs: {tag: {Name: v}}}\ntrainer: {command: x, user: ubuntu}\n";
  EXPECT_EQ(problems_of(job + launch_needs, as_me), "");
  EXPECT_NE(problems_of(job, as_me), "");
}

TEST(Launch, APlaceForPackagesNeedsNoChecksum) {
  const Package& sent = launch_of("  package: {s3: s3://packages/all/, file: ../made}\n").package;
  EXPECT_TRUE(sent.is_sent());
  EXPECT_EQ(sent.file, "../made");
  EXPECT_TRUE(launch_of("  package: {s3: s3://packages/}\n").package.is_sent());
  EXPECT_FALSE(launch_of("  package: apt\n").package.is_sent());
}

TEST(Launch, SaysWhatIsWrong) {
  const auto has = [](const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), text.npos) << text;
  };
  const auto problem = [](const std::string& more) { return problems_of(with_launch(more)); };
  has(problems_of(smallest_and("launch: {image: ami-1}\n")), "'instance_types' is missing");
  has(problems_of(smallest_and("launch: [a]\n")), "launch: expected");
  has(problem("  type: spot-flet\n"), "did you mean 'spot-fleet'?");
  has(problem("  type: spot-fleet\n"), "needs fleet_role");
  has(problem("  type: auto-scaling-group\n"), "needs zones or subnets");
  has(problem("  type: auto-scaling-group\n  zones: a\n  allocation: diversified\n"),
      "no allocation 'diversified'");
  has(problem("  zones: a\n  subnets: b\n"), "give one of them");
  has(problem("  allocation: cheapest\n"), "is not one of priceCapacityOptimized");
  has(problem("  max_price: 1e-1\n"), "dollars an hour");
  has(problem("  max_price: -1\n"), "a number above 0");
  has(problem("  capacity: 2\n"), "needs `claims:`");
  has(problem("  on_demand: sometimes\n"), "none of never, always, when-needed, or after");
  has(problem("  on_demand: after a while\n"), "is not a duration");
  has(problem("  on_demand: always\n  max_price: 1\n"), "max_price is of spot instances");
  has(problem("  package: bakd\n"), "did you mean 'baked'?");
  has(problem("  package: {s3: s3://packages/x.zip, sha256: 0}\n"), ".tar.gz");
  has(problem("  package: {s3: s3://packages/x.deb, sha256: 0}\n"), "64 hexadecimal digits");
  has(problem("  package: {s3: \"s3://packages/a'b.deb\"}\n"), "is no package");
  has(problem("  package: {s3: s3://packages/x.deb}\n"), "'sha256' is missing");
  has(problem("  package: {s3: s3://packages/x.deb, sha256: " + std::string(64, 'a') +
              ", file: x.deb}\n"),
      "a place that ends with '/'");
  has(problem("  package: {s3: s3://packages/all/, sha256: " + std::string(64, 'a') + "}\n"),
      "takes that of what it sends");
  has(problem("  volume: {size: 10}\n"), "no zones are named");
  has(problem("  volume: {size: 0, zone: a}\n"), "from 1 to 65536");
  has(problem("  tags: {Name: x}\n"), "the tag by which storage.ebs is found");
  has(problem("  tags: {'spotter:job': x}\n"), "Spotter's own");
  has(problem("  tags: {'cost center': x}\n"), "launch.tags.cost center: 'cost center': EC2 would");
  has(problem("  tags: {'team/speech': x}\n"), "launch no instance");
  has(problem("  tags: {_index: x}\n"), "launch no instance");
  has(problem("  instance_typs: a.b\n"), "did you mean 'instance_types'?");
  const auto replaced = [&](const std::string& what, const std::string& by) {
    std::string text = with_launch("");
    return problems_of(text.replace(text.find(what), what.size(), by));
  };
  has(replaced("g4dn.xlarge", "g5.xlarge"), "instance_types: g5.xlarge is there twice");
  has(problem("  zones: [us-west-2a, us-west-2b, us-west-2a]\n"),
      "zones: us-west-2a is there twice");
  has(replaced("ami-0123", "debian"), "expected an image such as");
  has(replaced("g5.xlarge", "g5"), "expected an instance type such as");
  has(replaced("{ebs: {tag: {Name: v}}}", "{folder: {path: /data}}") +
          problems_of("job: a\nstorage: {folder: {path: /d}}\ntrainer: {command: a}\n" +
                      std::string(launch_needs) + "  volume: {size: 1, zone: a}\n"),
      "storage is no EBS volume");
}

}  // namespace
}  // namespace spotter::config

// A job seen from elsewhere: what EC2 shows and what was published, put together.
#include "agent/commands/job_view.hpp"

#include <gtest/gtest.h>

#include "agent/commands/fleets.hpp"
#include "agent/wire/status.hpp"

namespace spotter::command {
namespace {

using nlohmann::json;

constexpr double now = 1'700'000'000;

wire::Volume volume(wire::VolumeState state = wire::VolumeState::Available) {
  wire::Volume it;
  it.id = "vol-1";
  it.zone = "us-west-2a";
  it.state = state;
  it.tags = {{"spotter:job", "mnist"}, {"spotter:role", "state"}};
  return it;
}

wire::Instance instance(const char* id, wire::InstanceState state) {
  wire::Instance it;
  it.id = id;
  it.zone = "us-west-2b";
  it.type = "g5.xlarge";
  it.lifecycle = "spot";
  it.state = state;
  it.launch_time = wire::WallTime(std::chrono::seconds(static_cast<std::int64_t>(now) - 40));
  return it;
}

Published published(double updated, const char* stage = "training", const char* on = "i-1") {
  const json status = {{"version", 1},
                       {"job", "mnist"},
                       {"stage", stage},
                       {"says", "training on vol-1"},
                       {"instance", on},
                       {"type", "g5.xlarge"},
                       {"zone", "us-west-2a"},
                       {"step", 30},
                       {"steps_total", 100},
                       {"steps_per_second", 2},
                       {"checkpoint_step", 25},
                       {"checkpoint_boottime_ms", 940'000},
                       {"updated_boottime_ms", 1'000'000},
                       {"updated", updated}};
  return {.status = status.dump()};
}

std::string says(const JobSeen& seen) { return view_of(seen)["says"].get<std::string>(); }
std::string stage(const JobSeen& seen) { return view_of(seen)["stage"].get<std::string>(); }

using State = wire::InstanceState;

TEST(JobView, OfAMachineThatTrainsIsWhatItSays) {
  const JobSeen seen{.job = "mnist",
                     .volumes = {volume(wire::VolumeState::InUse)},
                     .instances = {instance("i-1", State::Running)},
                     .published = published(now - 20),
                     .now = now};
  EXPECT_EQ(stage(seen), "training");
  EXPECT_EQ(says(seen), "training on vol-1");
  const json view = view_of(seen);
  EXPECT_EQ(view["instance"], "i-1");
  EXPECT_EQ(view["steps_per_second"], 2);
  const auto shown = wire::status_text(view.dump(), clock_of(view, now));
  ASSERT_TRUE(shown);
  EXPECT_NE(shown->find("checkpoint  step 25, 80 s ago\n"), std::string::npos) << *shown;
  EXPECT_NE(shown->find("seen        20 s ago\n"), std::string::npos) << *shown;
}

TEST(JobView, WhenNoMachineIsUpSaysSinceWhen) {
  JobSeen seen{.job = "mnist",
               .volumes = {volume()},
               .instances = {instance("i-1", State::Terminated)},
               .published = published(now - 12 * 60, "released"),
               .now = now};
  EXPECT_EQ(says(seen), "waiting for capacity since 12 min");
  EXPECT_EQ(view_of(seen)["waiting_since"], now - 12 * 60);
  EXPECT_EQ(view_of(seen)["instance"], "none is up; the last was i-1 in us-west-2a");
  EXPECT_FALSE(view_of(seen).contains("steps_per_second"));
  seen.fleets = {{{FleetKind::Ec2Fleet, "fleet-1"}, "mnist", "", wire::FleetState::Cancelled, 0}};
  EXPECT_EQ(says(seen), "no instance is up, and no fleet will start one: spotter launch");
  seen.published.reset();
  seen.fleets.clear();
  EXPECT_EQ(says(seen), "waiting for capacity") << "by its tags alone nobody knows since when";
}

TEST(JobView, OfAMachineThatHasNotSpokenYet) {
  const JobSeen seen{
      .job = "mnist",
      .volumes = {volume()},
      .instances = {instance("i-1", State::Terminated), instance("i-2", State::Running)},
      .published = published(now - 200, "released"),
      .now = now};
  EXPECT_EQ(stage(seen), "starting");
  EXPECT_EQ(says(seen), "i-2 is running, launched 40 s ago; its agent has published nothing yet");
  EXPECT_EQ(view_of(seen)["zone"], "us-west-2b");
}

TEST(JobView, OfAMachineThatSaysNothingTheReasonsThatThereAre) {
  const auto launched_ago = [](JobSeen& seen, double seconds) {
    seen.instances[0].launch_time =
        wire::WallTime(std::chrono::seconds(static_cast<std::int64_t>(now - seconds)));
    return says(seen);
  };
  JobSeen seen{.job = "mnist",
               .volumes = {volume()},
               .instances = {instance("i-2", State::Running)},
               .published = published(now - 7200, "released"),
               .publishes = true,
               .now = now};
  EXPECT_FALSE(is_silent(seen));
  EXPECT_EQ(launched_ago(seen, 599).find("has said nothing"), std::string::npos);
  const std::string open = launched_ago(seen, 12 * 60);
  EXPECT_TRUE(is_silent(seen));
  EXPECT_NE(open.find("i-2 has said nothing for 12 min: it has not booted, or its user data"),
            std::string::npos)
      << open;
  EXPECT_NE(open.find("get-console-output --latest --output text --instance-id i-2"),
            std::string::npos);
  seen.volumes[0].attachments = {{.instance = "i-2"}};
  EXPECT_NE(says(seen).find("it has its volume, so its agent runs"), std::string::npos);
  seen.publishes = false;
  EXPECT_FALSE(is_silent(seen)) << "it says nothing here, and has its volume";
  seen.publishes = true;
  seen.role_lacks = "spotter may not: s3:PutObject";
  EXPECT_NE(says(seen).find("for 12 min: its role spotter may not: s3:PutObject"),
            std::string::npos);
  seen.instances[0].state = State::Pending;
  EXPECT_NE(says(seen).find("EC2 has not booted it yet"), std::string::npos);
  seen.instances.clear();
  seen.launches_nothing = "InsufficientInstanceCapacity: none";
  EXPECT_EQ(says(seen), "waiting for capacity since 2 h; InsufficientInstanceCapacity: none");
}

TEST(JobView, AMachineThatEndsWithoutHavingSpokenDoesNotStart) {
  JobSeen seen{.job = "mnist",
               .volumes = {volume()},
               .instances = {instance("i-2", State::ShuttingDown)},
               .published = published(now - 12 * 60, "released"),
               .now = now};
  EXPECT_EQ(says(seen), "waiting for capacity since 12 min");
  seen.published = published(now - 20, "unmounting", "i-2");
  EXPECT_EQ(stage(seen), "unmounting") << "one that has spoken is releasing the volume";
  seen.instances.insert(seen.instances.begin(), instance("i-3", State::Pending));
  seen.published.reset();
  EXPECT_EQ(stage(seen), "starting");
  EXPECT_EQ(says(seen), "i-3 is pending, launched 40 s ago");
}

JobFleet fleet_made_at(std::int64_t second, const char* role = "") {
  JobFleet it;
  it.created = wire::WallTime(std::chrono::seconds(second));
  it.role = role;
  return it;
}

TEST(Due, OfATimeWithinCountsFromTheFirstLaunch) {
  config::Deadline deadline;
  const std::vector<JobFleet> fleets{fleet_made_at(50, "on-demand"), fleet_made_at(200),
                                     fleet_made_at(100)};
  EXPECT_FALSE(due_of(deadline, fleets));
  deadline.within = std::chrono::minutes(1);
  EXPECT_EQ(due_of(deadline, fleets), wire::WallTime(std::chrono::seconds(160)));
  EXPECT_FALSE(due_of(deadline, {})) << "it was not launched";
  deadline = {.finish_by = wire::WallTime(std::chrono::seconds(7)), .within = {}};
  EXPECT_EQ(due_of(deadline, fleets), deadline.finish_by);
}

TEST(JobView, SaysByWhenAJobIsToHaveFinished) {
  JobFleet fleet = fleet_made_at(100);
  fleet.state = wire::FleetState::Active;
  fleet.target = 1;
  fleet.watched =
      "2025-11-24T16:00:00Z no spot since 2025-11-24T16:00:00Z use=wait trouble=none "
      "left=5.20/0.340 latest=2025-11-24T21:10:00Z dollars=0.39/1 zone=us-west-2b had=2/10.4 "
      "lacked=1/3";
  JobSeen seen{.job = "mnist", .fleets = {fleet}, .now = now};
  seen.due = wire::WallTime(std::chrono::seconds(static_cast<std::int64_t>(now)));
  EXPECT_EQ(view_of(seen)["outlook"],
            "by 2023-11-14T22:13:20Z; 34 % left, about 5.2 h; on demand from 2025-11-24T21:10:00Z "
            "at the latest; spot in us-west-2b is 61 % cheaper and lasted 5.2 h on average");
}

TEST(JobView, OfAMachineThatIsGoneNoOutlookIsLeft) {
  JobSeen seen{.job = "mnist", .published = published(now - 1000), .now = now};
  auto status = json::parse(seen.published->status);
  status["outlook"] = "34 % left";
  status["watcher"] = "watched at noon";
  seen.published->status = status.dump();
  EXPECT_FALSE(view_of(seen).contains("outlook"));
  EXPECT_FALSE(view_of(seen).contains("watcher"));
  seen.instances = {instance("i-1", State::Running)};
  EXPECT_EQ(view_of(seen)["outlook"], "34 % left");
  EXPECT_EQ(view_of(seen)["watcher"], "watched at noon");
}

TEST(JobView, OfAnOnDemandMachineSaysWhatItCosts) {
  JobSeen seen{.job = "mnist",
               .instances = {instance("i-1", State::Running), instance("i-2", State::Running)},
               .published = published(now - 60),
               .now = now};
  EXPECT_FALSE(view_of(seen).contains("on_demand"));
  seen.instances[0].lifecycle.clear();
  EXPECT_EQ(view_of(seen)["on_demand"], "i-1, price unknown");
  seen.on_demand_prices = {{"g5.xlarge", 1.006}};
  EXPECT_EQ(view_of(seen)["on_demand"], "i-1, $1.006 an hour");
  EXPECT_EQ(view_of(seen)["cloud"]["instances"][0]["on_demand"], true);
  EXPECT_EQ(view_of(seen)["cloud"]["instances"][1]["on_demand"], false);
  const std::string page = wire::status_text(view_of(seen).dump(), Time{}).value_or("");
  EXPECT_NE(page.find("\non demand   i-1, $1.006 an hour\n"), page.npos) << page;
}

TEST(JobView, OfAnAgentThatWentSilent) {
  const JobSeen seen{.job = "mnist",
                     .instances = {instance("i-1", State::Running)},
                     .published = published(now - 20 * 60),
                     .now = now};
  EXPECT_EQ(stage(seen), "training");
  EXPECT_EQ(says(seen), "training on vol-1; its agent has reported nothing for 20 min");
}

TEST(JobView, OfWhatIsOver) {
  JobSeen seen{.job = "mnist",
               .volumes = {volume()},
               .published = published(now - 3 * 3600, "cancelling-fleet"),
               .now = now};
  seen.volumes[0].tags["spotter:done"] = "true";
  EXPECT_EQ(says(seen), "finished, 3 h ago; the result is safe");
  seen.volumes[0].tags.erase("spotter:done");
  seen.published = published(now - 7200, "gave-up");
  EXPECT_EQ(stage(seen), "gave-up");
  EXPECT_EQ(says(seen), "training on vol-1; 2 h ago");
}

TEST(JobView, AWrongClockOfTheMachineDoesNotMatter) {
  JobSeen seen{.job = "mnist",
               .instances = {instance("i-1", State::Running)},
               .published = published(now - 30 * 3600),
               .now = now};
  seen.published->age = 20;
  EXPECT_EQ(says(seen), "training on vol-1");
  const json view = view_of(seen);
  EXPECT_NE(wire::status_text(view.dump(), clock_of(view, now))->find("seen        20 s ago\n"),
            std::string::npos);
  seen.instances[0].state = State::Terminated;
  seen.published->age = 720;
  EXPECT_EQ(says(seen), "waiting for capacity since 12 min");
}

TEST(JobView, OfAMachineThatEc2DoesNotKnow) {
  JobSeen seen{.job = "mnist", .published = published(now - 20, "training", "laptop"), .now = now};
  EXPECT_EQ(says(seen), "training on vol-1");
  seen.published = published(now - 7200, "training", "laptop");
  EXPECT_EQ(says(seen), "training on vol-1; its agent has reported nothing for 2 h");
}

TEST(JobView, DoesWithoutAStatusThatIsNone) {
  for (const char* status : {"", "{\"version\": 1, \"jo", "[]", "{\"version\": 2}"}) {
    const JobSeen seen{.job = "mnist",
                       .volumes = {volume()},
                       .published = Published{.status = status},
                       .now = now};
    EXPECT_EQ(says(seen), "waiting for capacity") << status;
  }
  const JobSeen odd{.job = "mnist",
                    .published = Published{.status = R"({"version":1,"updated":1e300,"step":[],
                        "updated_boottime_ms":-1,"instance":7,"says":{},"stage":null})"},
                    .now = now};
  const json view = view_of(odd);
  EXPECT_TRUE(wire::status_text(view.dump(), clock_of(view, now)));
  EXPECT_NE(line_of(view, 3, now), "");
}

TEST(JobView, ATerminalIsNotLedAstray) {
  const JobSeen seen{
      .job = "mnist:3", .published = published(now, "\x1b[2J", "\x1b]0;mine\x07"), .now = now};
  EXPECT_EQ(line_of(view_of(seen), 3, now).find('\x1b'), std::string::npos);
}

TEST(JobView, ALineOfASweep) {
  const JobSeen seen{.job = "mnist:3",
                     .instances = {instance("i-1", State::Running)},
                     .published = published(now - 20),
                     .now = now};
  EXPECT_EQ(line_of(view_of(seen), 3, now),
            "     3  training                          30            -  20 s ago     i-1\n");
}

}  // namespace
}  // namespace spotter::command

// Everything about the fake AWS that a test may want different, with AWS's own behaviour as the
// default. A range is drawn from uniformly by the world's seed, so that a failure replays from the
// seed alone.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tests/world/cold.hpp"

namespace spotter::world {

using WallTime = std::chrono::sys_time<std::chrono::milliseconds>;

struct Range {
  Duration least{};
  Duration most{};
};

struct Settings {
  Region region = "us-west-2";
  bool foreign_images = false;  // its images have other ids than those of the other region
  std::string account = "123456789012";
  std::vector<Zone> zones = {"us-west-2a", "us-west-2b", "us-west-2c"};
  // The wall clock at Time{0}; every timestamp in an answer is origin + now.
  WallTime origin = std::chrono::sys_days{std::chrono::year{2026} / 1 / 1};

  // Attach and detach take 1 to 4 s; the rest are typical values of the EBS and EC2 guides.
  Range volume_creation{Duration{500}, Duration{3000}};
  Range attach{Duration{1000}, Duration{4000}};
  Range detach{Duration{1000}, Duration{4000}};
  Range snapshot{Duration{2000}, Duration{6000}};
  Duration snapshot_per_gibibyte{0};  // added for each GiB of the volume, for replayed markets
  Range boot{Duration{1000}, Duration{3000}};           // pending -> running
  Range shut_down{Duration{2000}, Duration{5000}};      // shutting-down -> terminated
  ColdSettings cold{};                                  // volumes of snapshots
  Range volume_release{Duration{500}, Duration{2000}};  // instance dead -> its volumes available
  Range fleet_reaction{Duration{500},
                       Duration{1500}};               // submitted -> active -> launch, and changes
  Range replacement{Duration{2000}, Duration{6000}};  // instance dead -> its replacement launched
  // A placement group's pending -> available, and deleting -> gone. EC2 names no bound.
  Range placement_group{Duration{500}, Duration{2000}};
  Duration placement_left{1000};  // a terminated instance keeps its placement group for as long
  Range capacity_retry{Duration{3000}, Duration{8000}};  // no capacity anywhere: try again
  Range capacity_lost{Duration{60000},
                      Duration{180000}};  // how long an interruption empties a zone

  // Longest time for which a Describe call may still show the earlier picture (0 = consistent).
  Duration consistency_lag{0};
  // "It takes up to 30 s for spot requests"; applies to DescribeSpotInstanceRequests alone.
  Duration spot_request_lag{0};

  // Each listing begins with a page that has nothing and a token, as AWS's may; that of prices does
  // so by chance.
  bool empty_pages = false;
  // From the launch of a fleet's instance until AWS puts the fleet's own tags on it: at once up to
  // a minute or more. AWS names no bound.
  Range fleet_tags{};

  Duration interruption_lead{120000};  // the two minutes of an interruption notice
  // "We begin terminating instances 30 minutes before the end time":
  // https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/capacity-blocks-how.html
  Duration block_cleared{1800000};
  // "It takes several minutes to clean up your instance before you can launch another instance":
  // https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/capacity-blocks-launch.html
  Range block_cleanup{Duration{120000}, Duration{300000}};
  Duration terminated_visible{3600000};        // a terminated instance stays in DescribeInstances
  Duration credentials_lifetime{6 * 3600000};  // role credentials last about six hours
  Duration snapshot_gap{15000};                // least time between two snapshots of one volume
  std::size_t pending_snapshots = 5;           // per volume (1 for st1 and sc1)
  bool metadata_tags = false;                  // tags/instance is off unless switched on
  bool tokens_optional = false;                // the account's default of HttpTokens: required
  // An account in which nobody has made a role or an instance profile yet. In any other all of
  // them are there, and policies are set by World::set_policies.
  bool empty_account = false;
  // From a change in IAM until the other services know of it: AWS names no bound, and people
  // have seen from some seconds up to two minutes.
  Range iam_reaches{Duration{4000}, Duration{15000}};
  std::string role = "spotter-role";
  std::string default_type = "p3.2xlarge";

  std::string user_access_key = "AKIAEMULATOR00000000";
  // Of the user's key, of those of set_policies(), and what all that are given out are made of.
  std::string user_secret = "emulator-secret";

  bool record_history = true;  // the simulator of a million lives switches it off
};

}  // namespace spotter::world

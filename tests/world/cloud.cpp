#include "tests/world/cloud.hpp"

#include <algorithm>
#include <cstdio>
#include <ctime>

#include "tests/world/fleets.hpp"
#include "tests/world/groups.hpp"
#include "tests/world/iam.hpp"
#include "tests/world/instances.hpp"
#include "tests/world/reservations.hpp"
#include "tests/world/s3/digest.hpp"
#include "tests/world/snapshots.hpp"
#include "tests/world/volumes.hpp"

namespace spotter::world {

namespace {

struct Dispatch {
  Cloud& cloud;
  void operator()(const VolumeReady& it) const { Volumes(cloud).on(it); }
  void operator()(const VolumeVanishes& it) const { Volumes(cloud).on(it); }
  void operator()(const AttachEnds& it) const { Volumes(cloud).on(it); }
  void operator()(const DeviceAppears& it) const { Volumes(cloud).on(it); }
  void operator()(const DetachEnds& it) const { Volumes(cloud).on(it); }
  void operator()(const ModificationProceeds& it) const { Volumes(cloud).on(it); }
  void operator()(const SnapshotEnds& it) const { Snapshots(cloud).on(it); }
  void operator()(const InstanceRuns& it) const { Instances(cloud).on(it); }
  void operator()(const ShutDownEnds& it) const { Instances(cloud).on(it); }
  void operator()(const FleetTagged& it) const { Instances(cloud).on(it); }
  void operator()(const InterruptionDue& it) const { Instances(cloud).on(it); }
  void operator()(const ReplacedEnds& it) const { Instances(cloud).on(it); }
  void operator()(const FleetWakes& it) const { Fleets(cloud).on(it); }
  void operator()(const HookTimesOut& it) const { Groups(cloud).on(it); }
  void operator()(const IamReaches& it) const { on_iam_reaches(cloud, it.who); }
  void operator()(const BlockEnds& it) const { Reservations(cloud).on(it); }
  void operator()(const ReclaimEnds& it) const { Reservations(cloud).on(it); }
  void operator()(const ReservedEnds& it) const { Instances(cloud).on(it); }
  void operator()(const CapacityReturns& it) const {
    cloud.record("capacity-returned", it.zone.str());
    Fleets(cloud).capacity_changed();
  }
};

std::tm broken_down(WallTime time) {
  const std::time_t seconds =
      std::chrono::floor<std::chrono::seconds>(time).time_since_epoch().count();
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  return parts;
}

std::string formatted(WallTime time, const char* format) {
  const std::tm parts = broken_down(time);
  char text[64];
  return {text, std::strftime(text, sizeof text, format, &parts)};
}

}  // namespace

Cloud::Cloud(Settings settings_given, std::uint64_t seed)
    : settings(std::move(settings_given)), random(seed), cold_random(~seed) {
  credentials[settings.user_access_key] = {
      .access_key = settings.user_access_key, .secret = settings.user_secret, .caller = "user"};
  for (const Zone& zone : settings.zones) capacity[zone] = {};
  const std::string id = "sg-00000000000000000";
  security_groups[id] = {.id = id,
                         .name = "default",
                         .description = "default VPC security group",
                         .in = {{.protocol = "-1", .group = id}},
                         .out = {{.protocol = "-1", .cidr = "0.0.0.0/0"}}};
}

void Cloud::record(std::string kind, std::string subject, std::string detail) {
  if (!settings.record_history) return;
  history.push_back({now, std::move(kind), std::move(subject), std::move(detail)});
}

std::string Cloud::secret_of(const std::string& access_key) {
  constexpr std::size_t digits = 27;
  const std::string made_of = settings.user_secret + "\n" + access_key + "\n" + random.hex(digits);
  const std::string sum = s3::hexadecimal(s3::digest(s3::Algorithm::Sha256, made_of));
  return "wJalrXUtnFEMI" + sum.substr(0, digits);
}

bool Cloud::has_zone(const Zone& zone) const {
  return std::find(settings.zones.begin(), settings.zones.end(), zone) != settings.zones.end();
}

void run_agenda(Cloud& cloud, Time until) {
  while (!cloud.agenda.empty() && cloud.agenda.begin()->first <= until) {
    const auto due = cloud.agenda.extract(cloud.agenda.begin());
    cloud.now = std::max(cloud.now, due.key());
    std::visit(Dispatch{cloud}, due.mapped());
  }
  cloud.now = std::max(cloud.now, until);
}

std::string xml_time(WallTime time) {
  const auto milliseconds = (time - std::chrono::floor<std::chrono::seconds>(time)).count();
  char fraction[8];
  std::snprintf(fraction, sizeof fraction, ".%03dZ", static_cast<int>(milliseconds));
  return formatted(time, "%Y-%m-%dT%H:%M:%S") + fraction;
}

std::string metadata_time(WallTime time) { return formatted(time, "%Y-%m-%dT%H:%M:%SZ"); }

std::string http_date(WallTime time) { return formatted(time, "%a, %d %b %Y %H:%M:%S GMT"); }

std::optional<WallTime> parse_time(const std::string& text) {
  int year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0;
  const int found = std::sscanf(text.c_str(), "%d-%d-%d%*1[T ]%d:%d:%d", &year, &month, &day, &hour,
                                &minute, &second);
  const std::chrono::year_month_day date{std::chrono::year{year},
                                         std::chrono::month{static_cast<unsigned>(month)},
                                         std::chrono::day{static_cast<unsigned>(day)}};
  if ((found != 3 && found != 6) || !date.ok()) return std::nullopt;
  return std::chrono::sys_days{date} + std::chrono::hours{hour} + std::chrono::minutes{minute} +
         std::chrono::seconds{second};
}

}  // namespace spotter::world

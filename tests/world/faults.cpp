// What breaks on request: the admission of calls, and the faults by name.
#include <algorithm>
#include <charconv>
#include <functional>

#include "tests/world/world.hpp"

namespace spotter::world {

namespace {

// Statuses: https://docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html
int status_of(const std::string& code) {
  static const std::map<std::string, int> statuses = {{"AuthFailure", 401},
                                                      {"DryRunOperation", 412},
                                                      {"InternalError", 500},
                                                      {"InternalFailure", 500},
                                                      {"InsufficientInstanceCapacity", 500},
                                                      {"RequestLimitExceeded", 503},
                                                      {"ServiceUnavailable", 503},
                                                      {"Unavailable", 503},
                                                      {"UnauthorizedOperation", 403},
                                                      {"SignatureDoesNotMatch", 403},
                                                      {"RequestExpired", 400},
                                                      {"InvalidClientTokenId", 403}};
  const auto found = statuses.find(code);
  return found == statuses.end() ? 400 : found->second;
}

template <class Value>
std::optional<Value> of_action(const std::map<std::string, Value>& map, const std::string& action) {
  for (const std::string& key : {action, std::string("*")}) {
    const auto found = map.find(key);
    if (found != map.end()) return found->second;
  }
  return std::nullopt;
}

// The arguments of one fault; what is missing or malformed is collected.
class Arguments {
 public:
  explicit Arguments(const std::map<std::string, std::string>& given) : given_(given) {}

  std::string text(const std::string& name, const std::string& otherwise) const {
    const auto found = given_.find(name);
    return found == given_.end() ? otherwise : found->second;
  }
  Duration duration(const std::string& name, Duration otherwise) {
    const auto found = given_.find(name);
    if (found == given_.end()) return otherwise;
    const std::string& text = found->second;
    std::int64_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    static const std::map<std::string, int> units = {
        {"", 1000}, {"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000}};
    const auto unit = units.find(end);
    if (error != std::errc{} || unit == units.end() || number < 0) {
      problem_ = name + "=" + text + " is not a duration such as 30s or 250ms";
      return otherwise;
    }
    return Duration{number * unit->second};
  }
  int count(const std::string& name, int otherwise) {
    const auto found = given_.find(name);
    if (found == given_.end()) return otherwise;
    const std::string& text = found->second;
    int number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc{} || end != text.data() + text.size() || number < 0) {
      problem_ = name + "=" + text + " is not a number";
    }
    return number;
  }
  bool on() const { return text("on", "true") != "false"; }
  const std::string& problem() const { return problem_; }

 private:
  const std::map<std::string, std::string>& given_;
  std::string problem_;
};

constexpr Duration a_minute{60000};

using Fault = void (*)(World&, Cloud&, Arguments&);
struct NamedFault {
  const char* name;
  const char* arguments;
  Fault apply;
};

void imds(World&, Cloud& cloud, Arguments& given) {
  const InstanceId instance(given.text("instance", ""));
  const std::string mode = given.text("mode", "down");
  const Duration lasts = given.duration("for", a_minute);
  cloud.metadata_faults[instance] = {mode, cloud.now + lasts,
                                     given.duration("delay", Duration{2000})};
  if (mode == "none") cloud.metadata_faults.erase(instance);
}

// "a past time may stay": https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/
// spot-instance-termination-notices.html, "if the instance is not terminated at that time"
void failed_termination(World&, Cloud& cloud, Arguments& given) {
  Instance* instance = cloud.instances.find(InstanceId(given.text("instance", "")));
  if (instance) {
    instance->notice = Notice{InterruptionAction::Terminate, cloud.now - a_minute, cloud.number()};
  }
}

void capacity(World& world, Cloud& cloud, Arguments& given) {
  const bool any = given.text("instances", "any") == "any";
  const std::optional<int> fits = any ? std::nullopt : std::optional(given.count("instances", 0));
  world.set_capacity(Zone(given.text("zone", "")), fits, cloud.now);
}

void clear(World& world, Cloud& cloud, Arguments&) {
  cloud.latencies.clear();
  cloud.throttled.clear();
  cloud.failing.clear();
  cloud.denied.clear();
  cloud.storage_faults = {};
  cloud.cancels_to_fail = 0;
  cloud.metadata_faults.clear();
  world.settings().consistency_lag = Duration{0};
}

const NamedFault faults[] = {
    {"throttle", "action=A|* for=60s",
     [](World& world, Cloud& cloud, Arguments& it) {
       world.throttle(it.text("action", "*"), it.duration("for", a_minute), cloud.now);
     }},
    {"latency", "action=A|* of=1s",
     [](World& world, Cloud&, Arguments& it) {
       world.set_latency(it.text("action", "*"), it.duration("of", Duration{1000}));
     }},
    {"fail-next", "action=A|* count=1 code=InternalError|timeout-carried-out|timeout-lost|...",
     [](World& world, Cloud&, Arguments& it) {
       world.fail_next(it.text("action", "*"), it.count("count", 1),
                       it.text("code", "InternalError"));
     }},
    {"deny", "action=A|* on=true|false",
     [](World& world, Cloud&, Arguments& it) { world.deny(it.text("action", "*"), it.on()); }},
    {"imds", "mode=down|slow|401|403|429|500|empty|garbage|half|none instance=I for=60s delay=2s",
     imds},
    {"metadata-tags", "on=true|false, for instances launched from now on",
     [](World& world, Cloud&, Arguments& it) { world.settings().metadata_tags = it.on(); }},
    {"failed-termination", "instance=I", failed_termination},
    {"capacity", "zone=Z instances=any|N", capacity},
    {"consistency", "lag=5s",
     [](World& world, Cloud&, Arguments& it) {
       world.settings().consistency_lag = it.duration("lag", Duration{5000});
     }},
    {"attach-hangs", "for=60s",
     [](World&, Cloud& cloud, Arguments& it) {
       cloud.storage_faults.attach_hangs_until = cloud.now + it.duration("for", a_minute);
     }},
    {"detach-hangs", "for=60s",
     [](World&, Cloud& cloud, Arguments& it) {
       cloud.storage_faults.detach_hangs_until = cloud.now + it.duration("for", a_minute);
     }},
    {"device-late", "by=5s, after `attached`",
     [](World&, Cloud& cloud, Arguments& it) {
       cloud.storage_faults.device_late = it.duration("by", Duration{5000});
     }},
    {"device-by-name", "on=true|false: /dev/xvdf as on Xen, and no link by the volume's id",
     [](World&, Cloud& cloud, Arguments& it) { cloud.storage_faults.device_by_name = it.on(); }},
    {"volume-fails", "count=1",
     [](World&, Cloud& cloud, Arguments& it) {
       cloud.storage_faults.volumes_to_fail = it.count("count", 1);
     }},
    {"key-forbidden", "on=true|false",
     [](World&, Cloud& cloud, Arguments& it) { cloud.storage_faults.key_forbidden = it.on(); }},
    {"snapshot-fails", "count=1",
     [](World&, Cloud& cloud, Arguments& it) {
       cloud.storage_faults.snapshots_to_fail = it.count("count", 1);
     }},
    {"snapshot-recoverable", "count=1",
     [](World&, Cloud& cloud, Arguments& it) {
       cloud.storage_faults.snapshots_to_recover = it.count("count", 1);
     }},
    {"snapshot-takes", "time=1h",
     [](World&, Cloud& cloud, Arguments& it) {
       cloud.storage_faults.snapshot_takes = it.duration("time", Duration{3600000});
     }},
    {"cancel-fails", "count=1",
     [](World&, Cloud& cloud, Arguments& it) { cloud.cancels_to_fail = it.count("count", 1); }},
    {"clear", "(every fault off)", clear},
};

}  // namespace

Admission World::admit(const std::string& action, Time now) {
  enter(now);
  Admission admission{.delay = of_action(cloud_.latencies, action).value_or(Duration{0})};
  const auto is_throttled = [&](const std::string& key) {
    const auto found = cloud_.throttled.find(key);
    return found != cloud_.throttled.end() && cloud_.now < found->second;
  };
  if (is_throttled(action) || is_throttled("*")) {
    admission.error = ApiError{"RequestLimitExceeded", "Request limit exceeded.", 503};
    return admission;
  }
  const auto failing =
      cloud_.failing.count(action) ? cloud_.failing.find(action) : cloud_.failing.find("*");
  if (failing != cloud_.failing.end()) {
    const std::string code = failing->second.code;
    if (--failing->second.count <= 0) cloud_.failing.erase(failing);
    admission.drop = code.rfind("timeout", 0) == 0;
    admission.carry_out = code == "timeout-carried-out";
    admission.error = ApiError{code, "This call fails on request.", status_of(code)};
    return admission;
  }
  if (cloud_.denied.count(action) || cloud_.denied.count("*")) {
    admission.error =
        ApiError{"UnauthorizedOperation", "You are not authorized to perform this operation.", 403};
  }
  return admission;
}

void World::set_latency(const std::string& action, Duration latency) {
  cloud_.latencies[action] = latency;
}

void World::throttle(const std::string& action, Duration duration, Time now) {
  enter(now);
  cloud_.throttled[action] = cloud_.now + duration;
}

void World::fail_next(const std::string& action, int count, const std::string& code) {
  cloud_.failing[action] = {count, code};
  if (count <= 0) cloud_.failing.erase(action);
}

void World::deny(const std::string& action, bool denied) {
  if (denied) {
    cloud_.denied.insert(action);
  } else {
    cloud_.denied.erase(action);
  }
}

Expected<void> World::fault(const std::string& name,
                            const std::map<std::string, std::string>& arguments, Time now) {
  enter(now);
  const auto found = std::find_if(std::begin(faults), std::end(faults),
                                  [&](const NamedFault& it) { return name == it.name; });
  if (found == std::end(faults)) {
    return refusal("InvalidParameterValue", "There is no fault '" + name + "'.");
  }
  World changed = *this;  // a malformed argument changes nothing
  Arguments given(arguments);
  found->apply(changed, changed.cloud_, given);
  if (!given.problem().empty()) return refusal("InvalidParameterValue", given.problem());
  *this = std::move(changed);
  cloud_.record("fault", name);
  return {};
}

std::vector<std::string> World::fault_names() {
  std::vector<std::string> lines;
  for (const NamedFault& it : faults) lines.push_back(std::string(it.name) + ' ' + it.arguments);
  return lines;
}

}  // namespace spotter::world

#include "agent/commands/job_view.hpp"

#include <algorithm>

#include "agent/aws/formats/tags.hpp"
#include "agent/base/json.hpp"
#include "agent/base/text.hpp"
#include "agent/launch/fallback.hpp"
#include "agent/wire/status.hpp"

namespace spotter::command {
namespace {

using nlohmann::json;
using wire::InstanceState;
using wire::text_field;

constexpr double fresh_for = 300;  // seconds; the status is published every two minutes
constexpr double silent_after = 600;

double number(const json& object, const char* name) {
  return wire::number_field(object, name).value_or(0);
}

std::string both(const std::string& one, const std::string& other) {
  return one + (one.empty() || other.empty() ? "" : "; ") + other;
}

bool is_up(const wire::Instance& it) {
  return it.state != InstanceState::Terminated && it.state != InstanceState::Stopped;
}

bool is_leaving(const wire::Instance& it) {
  return it.state == InstanceState::ShuttingDown || it.state == InstanceState::Stopping;
}

std::string ago(double since, double now) {
  return wire::duration_text(std::max(0.0, now - since)) + " ago";
}

class View {
 public:
  explicit View(const JobSeen& seen) : seen_(seen) {
    if (seen.published && wire::status_trouble(seen.published->status).empty())
      view_ = wire::parsed_json(seen.published->status);
    last_seen_ = number(view_, "updated");
    if (seen.published && !seen.published->source.history.entries.empty())
      last_seen_ = std::max(last_seen_, seen.published->source.history.entries.back().time);
    if (view_.contains("updated") && seen.published->age) {
      last_seen_ = seen.now - *seen.published->age;
      view_["updated"] = last_seen_;
    }
    up_ = find_up();
  }

  json make() {
    view_["version"] = wire::status_version;
    view_["job"] = seen_.job;
    if (!is_live()) {
      // Fields of a trainer that no longer runs.
      for (const char* gone :
           {"steps_per_second", "wake_boottime_ms", "wake", "deadline", "notice_deadline_ms",
            "storage_says", "blocked", "detail", "outlook", "work_left_seconds", "on_demand_by",
            "deadline_trouble", "gang", "watcher", "volume_read_bytes", "volume_total_bytes"})
        view_.erase(gone);
    }
    show_stage();
    show_places();
    show_cloud();
    return std::move(view_);
  }

 private:
  // The machine that published last, if it is up, or else any that starts or runs.
  const wire::Instance* find_up() const {
    const wire::Instance* found = nullptr;
    for (const wire::Instance& it : seen_.instances) {
      if (!is_up(it)) continue;
      if (spoke(it)) return &it;
      if (is_leaving(it)) continue;
      if (found == nullptr || it.launch_time > found->launch_time) found = &it;
    }
    return found;
  }
  bool spoke(const wire::Instance& it) const {
    return it.id.view() == text_field(view_, "instance");
  }
  bool is_fresh() const { return last_seen_ > 0 && seen_.now - last_seen_ < fresh_for; }
  // A machine unknown to EC2 (on a share, a laptop) counts as running while it publishes.
  bool is_elsewhere() const {
    const std::string instance = text_field(view_, "instance");
    return last_seen_ > 0 && !instance.starts_with("i-");
  }
  bool is_live() const { return up_ != nullptr ? spoke(*up_) : is_elsewhere() && is_fresh(); }
  // Ignores the end of a job that was launched again since.
  bool ended_as(const char* how) const {
    return text_field(view_, "stage") == how && (up_ == nullptr || spoke(*up_));
  }
  bool is_done() const {
    return ended_as("finished") || std::ranges::any_of(seen_.volumes, [](const wire::Volume& it) {
             return wire::value_of(it.tags, tag::done) == "true";
           });
  }
  bool wants_instances() const {
    return seen_.fleets.empty() || std::ranges::any_of(seen_.fleets, [](const JobFleet& it) {
             return it.is_at_work() && it.target > 0;
           });
  }

  void stage(const char* name, const std::string& says) {
    view_["stage"] = name;
    view_["says"] = says;
  }

  void show_stage() {
    const std::string since = last_seen_ > 0 ? ago(last_seen_, seen_.now) : "";
    const std::string says = text_field(view_, "says");
    if (is_done())
      return stage("finished",
                   "finished" + (since.empty() ? "" : ", " + since) + "; the result is safe");
    if (ended_as("gave-up")) return stage("gave-up", both(says, since));
    if (up_ != nullptr && !spoke(*up_)) return show_starting();
    if (is_live() || is_elsewhere()) {
      if (up_ != nullptr && silence() >= silent_after) return show_silence(says);
      if (!is_fresh() && last_seen_ > 0)
        view_["says"] = both(says, "its agent has reported nothing for " +
                                       wire::duration_text(seen_.now - last_seen_));
      return;
    }
    view_["waiting_since"] = last_seen_ > 0 ? json(last_seen_) : json();
    if (!wants_instances())
      return stage("waiting", "no instance is up, and no fleet will start one: spotter launch");
    const std::string since_then =
        last_seen_ > 0 ? " since " + wire::duration_text(std::max(0.0, seen_.now - last_seen_))
                       : "";
    stage("waiting", both("waiting for capacity" + since_then, seen_.launches_nothing));
  }

 public:
  // Seconds in which nothing has come of the machine that is up.
  double silence() const {
    if (up_ == nullptr || (!seen_.publishes && is_attached())) return 0;
    double since = up_->launch_time
                       ? static_cast<double>(up_->launch_time->time_since_epoch().count())
                       : seen_.now;
    if (spoke(*up_)) since = std::max(since, last_seen_);
    return seen_.now - since;
  }

 private:
  bool is_attached() const {
    return std::ranges::any_of(seen_.volumes, [&](const wire::Volume& it) {
      return std::ranges::any_of(it.attachments,
                                 [&](const auto& one) { return one.instance == up_->id; });
    });
  }

  // Names the likely reason, from the surest to what only the machine itself knows.
  std::string why_silent() const {
    if (up_->state == InstanceState::Pending) return "EC2 has not booted it yet";
    if (!seen_.role_lacks.empty()) return "its role " + seen_.role_lacks;
    if (!seen_.publishes && seen_.volumes.empty())
      return "without `publish` in its description it says nothing but to its own journal";
    if (is_attached())
      return "it has its volume, so its agent runs: has it a way to S3 (an endpoint, or a public "
             "address), and the right to write where it publishes?";
    return "it has not booted, or its user data failed, or it has no way to S3 and EC2, or lacks a "
           "right: aws ec2 get-console-output --latest --output text --instance-id " +
           up_->id.str();
  }

  void show_starting() {
    const bool published = seen_.published.has_value();
    std::string words = up_->id.str() + " is " + std::string(to_text(up_->state));
    if (up_->launch_time) {
      const auto launched = static_cast<double>(up_->launch_time->time_since_epoch().count());
      words += ", launched " + ago(launched, seen_.now);
    }
    stage("starting", both(words, published ? "its agent has published nothing yet" : ""));
    if (silence() >= silent_after) show_silence(words);
  }

  void show_silence(const std::string& words) {
    view_["says"] = both(words, up_->id.str() + " has said nothing for " +
                                    wire::duration_text(silence()) + ": " + why_silent());
  }

  void show_places() {
    if (up_ != nullptr) {
      view_["instance"] = up_->id.view();
      view_["type"] = up_->type.view();
      view_["zone"] = up_->zone.view();
      show_on_demand();
    } else if (!is_elsewhere() && !text_field(view_, "instance").empty()) {
      const std::string zone = text_field(view_, "zone");
      view_["instance"] = "none is up; the last was " + text_field(view_, "instance") +
                          (zone.empty() ? "" : " in " + zone);
      view_["type"] = view_["zone"] = json();
    }
    std::string volumes;
    for (const wire::Volume& it : seen_.volumes) {
      const std::string role = wire::value_of(it.tags, tag::role);
      std::string one =
          it.id.str() + " in " + it.zone.str() + ", " + std::string(to_text(it.state));
      if (role == "candidate" || role == "verified") one += ", a copy";
      for (const wire::Attachment& held : it.attachments)
        if (!held.instance.empty()) one += " by " + held.instance.str();
      volumes = both(volumes, one);
    }
    for (const wire::Snapshot& it : seen_.snapshots)
      if (it.state == wire::SnapshotState::Pending)
        volumes = both(volumes, it.id.str() + " is made, " + std::to_string(it.progress) + " %");
    if (!volumes.empty()) view_["volume"] = volumes;
    std::string fleets;
    for (const JobFleet& it : seen_.fleets)
      if (!it.is_over())
        fleets = both(fleets, it.fleet.id.str() + ", " + std::string(to_text(it.state)) +
                                  ", target " + std::to_string(it.target) +
                                  (it.ends ? ", ends at " + wire::to_rfc3339(*it.ends) : ""));
    if (!fleets.empty()) view_["fleet"] = fleets;
    show_watchers_mark();
  }

  // Shows the newest mark: of several regions, that of the one in which the job is.
  void show_watchers_mark() {
    std::optional<launch::WatchMark> newest;
    for (const JobFleet& it : seen_.fleets) {
      const auto mark = launch::mark_of(it.watched);
      if (!mark || !mark->outlook || !it.is_own() || !it.is_at_work()) continue;
      if (!newest || mark->looked > newest->looked) newest = mark;
    }
    if (!newest || is_done()) return;
    view_.erase("watcher");  // says the same, of some minutes ago
    view_["outlook"] = (seen_.due ? "by " + wire::to_rfc3339(*seen_.due) + "; " : "") +
                       launch::text_of(*newest->outlook);
  }

  // Each that is up, as a spot instance may be there beside it.
  void show_on_demand() {
    std::string all;
    for (const wire::Instance& it : seen_.instances) {
      if (!is_up(it) || !it.lifecycle.empty()) continue;
      const auto price = seen_.on_demand_prices.find(it.type.str());
      all = both(all, it.id.str() + (price == seen_.on_demand_prices.end()
                                         ? ", price unknown"
                                         : printed(", $%.4g an hour", price->second)));
    }
    if (!all.empty()) view_["on_demand"] = all;
  }

  void show_cloud() {
    json cloud = {{"instances", json::array()},
                  {"volumes", json::array()},
                  {"snapshots", json::array()},
                  {"fleets", json::array()}};
    for (const wire::Instance& it : seen_.instances)
      cloud["instances"].push_back({{"id", it.id.view()},
                                    {"type", it.type.view()},
                                    {"zone", it.zone.view()},
                                    {"on_demand", it.lifecycle.empty()},
                                    {"state", to_text(it.state)}});
    for (const wire::Volume& it : seen_.volumes)
      cloud["volumes"].push_back({{"id", it.id.view()},
                                  {"zone", it.zone.view()},
                                  {"state", to_text(it.state)},
                                  {"role", wire::value_of(it.tags, tag::role)},
                                  {"generation", wire::value_of(it.tags, tag::generation)}});
    for (const wire::Snapshot& it : seen_.snapshots)
      cloud["snapshots"].push_back(
          {{"id", it.id.view()}, {"volume", it.volume.view()}, {"progress", it.progress}});
    for (const JobFleet& it : seen_.fleets)
      cloud["fleets"].push_back(
          {{"id", it.fleet.id.view()}, {"state", to_text(it.state)}, {"target", it.target}});
    view_["cloud"] = std::move(cloud);
  }

  const JobSeen& seen_;
  json view_ = json::object();
  double last_seen_ = 0;  // time of the job's last sign
  const wire::Instance* up_ = nullptr;
};

}  // namespace

bool is_silent(const JobSeen& seen) { return View(seen).silence() >= silent_after; }

json view_of(const JobSeen& seen) { return View(seen).make(); }

Time clock_of(const json& view, double now) {
  const double updated = number(view, "updated");
  const double boot = number(view, "updated_boottime_ms");
  constexpr double farthest = 1e15;
  const double at = boot + (now - updated) * 1000;
  if (updated <= 0 || boot <= 0 || !(at > 0 && at < farthest)) return Time();
  return Time(Duration(static_cast<Duration::rep>(at)));
}

std::string line_of(const json& view, std::size_t experiment, double now) {
  const auto shown = [&](const char* name) {
    const auto found = view.find(name);
    return found != view.end() && found->is_number() ? found->dump() : std::string("-");
  };
  const bool has_loss = view.contains("loss") && view["loss"].is_number();
  const std::string loss = has_loss ? printed("%.5g", number(view, "loss")) : "-";
  const std::string stage =
      wire::printable(std::string(wire::stage_words(text_field(view, "stage"))));
  const double updated = number(view, "updated");
  const std::string seen = updated > 0 ? ago(updated, now) : "-";
  return printed("%6zu  %-23.23s %12s %12s  %-12s %s\n", experiment, stage.c_str(),
                 shown("step").c_str(), loss.c_str(), seen.c_str(),
                 wire::printable(text_field(view, "instance")).substr(0, 80).c_str());
}

}  // namespace spotter::command

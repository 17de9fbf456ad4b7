#include "agent/config/trainer_role.hpp"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "agent/aws/formats/iam.hpp"

namespace spotter::config {
namespace {

using Ordered = nlohmann::ordered_json;
using Places = std::vector<wire::S3Location>;

constexpr std::size_t longest_session_policy = 2048;  // characters

class SessionPolicy {
 public:
  explicit SessionPolicy(std::string_view partition)
      : s3_("arn:" + std::string(partition) + ":s3:::") {
    add("NotAction", "s3:*", "*");
  }

  void add(const char* key, const Ordered& actions, const Ordered& resources) {
    statements_.push_back({{"Effect", "Allow"}, {key, actions}, {"Resource", resources}});
  }
  void let(const Ordered& actions, const Places& places, const Places& single = {}) {
    if (!places.empty() || !single.empty()) add("Action", actions, objects(places, single));
  }
  // A whole bucket is listed without a prefix, too.
  void let_list(const Places& places) {
    std::map<std::string, std::set<std::string>> prefixes;
    for (const wire::S3Location& it : places)
      prefixes[it.bucket].insert(wire::literally(it.key) + "*");
    for (const auto& [bucket, its] : prefixes) {
      add("Action", "s3:ListBucket", s3_ + bucket);
      if (!its.contains("*"))
        statements_.back()["Condition"] = {{"StringLike", {{"s3:prefix", its}}}};
    }
  }

  // Empty: it is too long.
  std::string text() const {
    const std::string text = Ordered{{"Version", "2012-10-17"}, {"Statement", statements_}}.dump();
    return text.size() <= longest_session_policy ? text : std::string();
  }

 private:
  Ordered objects(const Places& places, const Places& single) const {
    std::set<std::string> all;
    for (const wire::S3Location& it : places)
      all.insert(s3_ + it.bucket + "/" + wire::literally(it.key) + "*");
    for (const wire::S3Location& it : single)
      all.insert(s3_ + it.bucket + "/" + wire::literally(it.key));
    return all;
  }

  std::string s3_;
  Ordered statements_ = Ordered::array();
};

Places both(Places one, const Places& other) {
  one.insert(one.end(), other.begin(), other.end());
  return one;
}

// The folders of these places, `depth` of each key at most.
Places cut(Places places, std::size_t depth) {
  for (wire::S3Location& it : places) {
    if (static_cast<std::size_t>(std::ranges::count(it.key, '/')) <= depth) continue;
    std::size_t end = 0;
    for (std::size_t i = 0; i < depth; ++i) end = it.key.find('/', end) + 1;
    it.key.resize(end);
  }
  return places;
}

// Does one of `places` hold one of `written`, beside which other jobs write, where `before` does
// not?
bool reach_new(const Places& places, const Places& before, const Places& written) {
  const auto holds = [](const Places& any, const wire::S3Location& it) {
    return std::ranges::any_of(any, [&](const wire::S3Location& each) {
      return each.bucket == it.bucket && it.key.starts_with(each.key);
    });
  };
  return std::ranges::any_of(
      written, [&](const auto& it) { return holds(places, it) && !holds(before, it); });
}

// The place to which libspotter copies its checkpoints, by the trainer's environment. None:
// nowhere.
std::optional<wire::S3Location> copied_by_libspotter(const Job& job) {
  const auto copied = job.trainer.env.find("SPOTTER_CHECKPOINTS_S3");
  if (copied == job.trainer.env.end()) return std::nullopt;
  auto where = wire::parse_s3_url(copied->second);
  if (!where) return std::nullopt;
  if (!where->key.empty() && !where->key.ends_with('/')) where->key += '/';  // as libspotter does
  return *where;
}

}  // namespace

TrainersPlaces trainers_places(const Job& job) {
  TrainersPlaces places;
  for (const wire::Channel& channel : job.channels.all)
    if (!channel.anonymous)
      (channel.type == wire::S3DataType::S3Prefix ? places.read : places.manifests)
          .push_back(channel.source);
  places.read = both(std::move(places.read), job.trainer.reads);
  places.checkpoints = job.trainer.writes;
  if (const auto where = job.checkpoints_in_s3()) places.checkpoints.push_back(*where);
  if (const auto where = copied_by_libspotter(job)) places.checkpoints.push_back(*where);
  if (const auto where = job.kept_at()) places.checkpoints.push_back(*where);
  if (job.gang) places.gang.push_back(job.gang->at);
  return places;
}

Result<std::string> session_policy(const Job& job, std::string_view partition) {
  const TrainersPlaces places = trainers_places(job);
  const Places written = both(places.checkpoints, places.gang);
  const Ordered write = {"s3:AbortMultipartUpload", "s3:DeleteObject", "s3:PutObject"};
  const auto text_for = [&](const Places& read) {
    SessionPolicy policy(partition);
    policy.let("s3:GetObject", both(read, written), places.manifests);
    policy.let_list(both(read, written));
    policy.let(write, written);
    return policy.text();
  };
  std::size_t deepest = 1;  // at which nothing is cut
  for (const wire::S3Location& it : places.read)
    deepest = std::max<std::size_t>(deepest, std::ranges::count(it.key, '/'));
  for (std::size_t depth = deepest; depth > 0; --depth) {
    const Places shorter = cut(places.read, depth);
    if (reach_new(shorter, places.read, written)) break;
    if (auto text = text_for(shorter); !text.empty()) return text;
  }
  return failure(
      "the trainer reads and writes in too many places for a session at AWS, which has " +
      std::to_string(longest_session_policy) +
      " characters for them: give its channels, trainer.reads and trainer.writes folders that they "
      "have in common and other jobs do not use, or the job a role of its own (trainer.role)");
}

// "arn:aws:sts::123456789012:assumed-role/spotter/i-..." has partition, account and name of ours.
std::string trainers_role_arn(const Trainer& trainer, const wire::CallerIdentity& who) {
  if (trainer.role.starts_with("arn:")) return trainer.role;
  constexpr std::string_view assumed = ":assumed-role/";
  std::string ours;
  if (const auto at = who.arn.find(assumed); at != who.arn.npos) {
    ours = who.arn.substr(at + assumed.size());
    ours = ours.substr(0, ours.find('/'));
  }
  if (trainer.role.empty() && ours.empty()) return {};
  const auto partition = who.arn.find(':', who.arn.find(':') + 1);
  return who.arn.substr(0, partition) + ":iam::" + who.account + ":role/" +
         trainers_role(trainer, ours);
}

}  // namespace spotter::config

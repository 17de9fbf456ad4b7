#include "agent/tools/iam/iam_places.hpp"

#include <map>
#include <set>

namespace spotter::command {
namespace {

// The objects, buckets and prefixes of several places in S3, for `<name>-objects` and so on. What
// lies below another of the places is not named again.
class Places {
 public:
  void add(const wire::S3Location& where) { all_[where.bucket].insert(where.key); }
  void give(const std::string& arn, const std::string& name, wire::IamValues& to) const {
    auto& objects = to.many[name + "-objects"] = {};
    auto& buckets = to.many[name + "-buckets"] = {};
    std::set<std::string> prefixes;
    for (const auto& [bucket, keys] : all_) {
      const std::string* above = nullptr;
      buckets.push_back(arn + bucket);
      for (const std::string& key : keys) {  // a prefix comes before what it begins
        if (above != nullptr && key.starts_with(*above)) continue;
        above = &key;
        objects.push_back(arn + bucket + "/" + wire::literally(key) + "*");
        prefixes.insert(wire::literally(key) + "*");
      }
    }
    to.many[name + "-prefixes"] = {prefixes.begin(), prefixes.end()};
  }

 private:
  std::map<std::string, std::set<std::string>> all_;  // bucket -> keys' prefixes
};

}  // namespace

std::optional<wire::S3Location> copied_by_libspotter(const config::Job& job) {
  const auto copied = job.trainer.env.find("SPOTTER_CHECKPOINTS_S3");
  if (copied == job.trainer.env.end()) return std::nullopt;
  const auto where = wire::parse_s3_url(copied->second);
  return where ? std::optional(*where) : std::nullopt;
}

void add_places(const config::Job& job, const IamScope& scope, wire::IamValues& values) {
  const std::string s3 = "arn:" + values.one["partition"] + ":s3:::";
  Places channels;
  for (const wire::Channel& channel : job.channels.all)
    if (!channel.anonymous) channels.add(channel.source);
  for (const wire::S3Location& where : scope.read) channels.add(where);
  channels.give(s3, "channel", values);
  Places prepared;
  Places sent;
  for (const config::Source& source : job.prepare) {
    if (const auto where = wire::parse_s3_url(source.from)) prepared.add(*where);
    if (source.via) prepared.add(*source.via);
    if (source.via) sent.add(*source.via);
  }
  const bool sends = job.launch && job.launch->package.is_sent();
  if (sends) sent.add(wire::parse_s3_url(job.launch->package.source).value());
  prepared.give(s3, "prepared", values);
  sent.give(s3, "sent", values);
  Places checkpoints;
  for (const wire::S3Location& where : scope.checkpoints) checkpoints.add(where);
  if (job.checkpoints.s3) checkpoints.add(*job.checkpoints.s3);
  if (const auto where = copied_by_libspotter(job)) checkpoints.add(*where);
  if (const auto where = job.kept_at()) checkpoints.add(*where);
  checkpoints.give(s3, "checkpoint", values);
  Places heads;
  if (const auto where = job.headed_at()) heads.add(*where);
  heads.give(s3, "head", values);
  Places homes;  // is there one, where there is no head?
  if (const auto where = job.headed_at()) homes.add(*where);
  if (const auto where = job.kept_at()) homes.add(*where);
  homes.give(s3, "home", values);
  Places claims;
  if (job.claims) claims.add(job.claims->at);
  claims.give(s3, "claim", values);
  Places gang;
  if (job.gang) gang.add(job.gang->at);
  gang.give(s3, "gang", values);
  Places fence;
  if (const auto where = job.fenced_at()) fence.add(*where);
  fence.give(s3, "fence", values);
  Places published;
  if (const auto where = job.published_at()) published.add(*where);
  published.give(s3, "published", values);
  auto& package = values.many["package-objects"];
  if (job.launch)
    if (const auto where = wire::parse_s3_url(job.launch->package.source))
      package = {s3 + where->bucket + "/" + wire::literally(where->key) + (sends ? "*" : "")};
  auto& list = values.many["list-objects"];
  if (job.sweep && !job.sweep->source.empty())
    if (const auto where = wire::parse_s3_url(job.sweep->source))
      list = {s3 + where->bucket + "/" + wire::literally(where->key)};
}

}  // namespace spotter::command

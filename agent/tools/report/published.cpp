#include "agent/tools/report/published.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "agent/aws/s3/objects.hpp"
#include "agent/report/published.hpp"

namespace spotter::command {
namespace {

using report::PublishedName;

// The objects of one job or experiment; segments are ordered by name.
struct Objects {
  std::string status;
  wire::WallTime status_written;
  std::vector<std::pair<std::string, PublishedName>> histories, curves;  // by their keys
};

// The names refer into the objects' keys.
std::map<report::Experiment, Objects> sorted(const std::vector<wire::ListedObject>& objects,
                                             std::size_t prefix) {
  std::map<report::Experiment, Objects> all;
  for (const auto& object : objects) {
    const auto name = report::parse_published_name(std::string_view(object.key).substr(prefix));
    switch (name.kind) {
      case PublishedName::Kind::Status:
        all[name.experiment].status = object.key;
        all[name.experiment].status_written = object.modified;
        break;
      case PublishedName::Kind::History:
        all[name.experiment].histories.emplace_back(object.key, name);
        break;
      case PublishedName::Kind::Curve:
        all[name.experiment].curves.emplace_back(object.key, name);
        break;
      case PublishedName::Kind::Other:
        break;
    }
  }
  return all;
}

// Replaces an object of many MiB, which no agent writes, by a line that is not valid.
constexpr const char* too_long = "too long\n";

// Each object's bytes by its key, as many at once as S3 takes.
Result<std::map<std::string, std::string>, s3::Failure> read_all(
    s3::Client& client, const std::string& bucket, const std::vector<std::string>& keys) {
  std::map<std::string, std::string> bytes;
  std::optional<s3::Failure> failed;
  for (const std::string& key : keys) {
    client.start({.bucket = bucket, .key = key}, [&, key](Result<s3::Answer, s3::Failure> answer) {
      if (answer)
        bytes[key] = std::move(answer->body);
      else if (answer.error().status == 200)
        bytes[key] = too_long;
      else if (answer.error().kind != s3::Failure::Kind::NoSuchKey)
        failed = std::move(answer.error());
    });
  }
  while (client.under_way() > 0) client.turn(std::chrono::seconds(1));
  if (failed) return tl::unexpected(std::move(*failed));
  return bytes;
}

}  // namespace

Result<std::vector<Published>, s3::Failure> read_published(s3::Client& client,
                                                           const wire::S3Location& place,
                                                           Wanted wanted) {
  std::string date;
  const auto listed = s3::list(client, place, {.date = &date});
  if (!listed) return tl::unexpected(listed.error());
  const auto now = wire::parse_http_date(date);
  auto all = sorted(*listed, place.key.size());
  std::vector<std::string> keys;
  for (auto& [experiment, its] : all) {
    if (wanted == Wanted::Status) {
      if (its.histories.size() > 1) its.histories = {its.histories.back()};
      its.curves.clear();
    }
    if (!its.status.empty()) keys.push_back(its.status);
    for (const auto* segments : {&its.histories, &its.curves})
      for (const auto& [key, name] : *segments) keys.push_back(key);
  }
  auto bytes = read_all(client, place.bucket, keys);
  if (!bytes) return tl::unexpected(std::move(bytes.error()));
  std::vector<Published> published;
  for (const auto& [experiment, its] : all) {
    Published one{.status = (*bytes)[its.status]};
    one.source.experiment = experiment;
    const bool dated = its.status_written != wire::WallTime();
    if (now && dated)
      one.age = std::max<double>(0, static_cast<double>((*now - its.status_written).count()));
    for (const auto* segments : {&its.histories, &its.curves})
      for (const auto& [key, name] : *segments)
        report::add_published(one.source, name, (*bytes)[key]);
    published.push_back(std::move(one));
  }
  return published;
}

}  // namespace spotter::command

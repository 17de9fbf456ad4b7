#include "agent/command/published.hpp"

#include <algorithm>
#include <charconv>
#include <map>
#include <utility>

#include "agent/s3/objects.hpp"

namespace spotter::command {
namespace {

using Experiment = std::optional<std::size_t>;

// The keys of one job or experiment; the segments in the order of their names.
struct Keys {
  std::string status;
  wire::WallTime status_written;
  std::vector<std::string> histories, curves;
};

// "7/history/..." -> 7, "history/..."
std::pair<Experiment, std::string_view> split(std::string_view name) {
  const auto slash = name.find('/');
  std::size_t index = 0;
  const auto head = name.substr(0, slash == name.npos ? 0 : slash);
  const auto [end, error] = std::from_chars(head.data(), head.data() + head.size(), index);
  if (head.empty() || error != std::errc() || end != head.data() + head.size())
    return {std::nullopt, name};
  return {index, name.substr(slash + 1)};
}

std::map<Experiment, Keys> sorted(const std::vector<wire::ListedObject>& objects,
                                  std::size_t prefix) {
  std::map<Experiment, Keys> all;
  for (const auto& object : objects) {
    const auto [experiment, name] = split(std::string_view(object.key).substr(prefix));
    if (name == "status.json") {
      all[experiment].status = object.key;
      all[experiment].status_written = object.modified;
    }
    if (!name.ends_with(".jsonl")) continue;
    if (name.starts_with("history/")) all[experiment].histories.push_back(object.key);
    if (name.starts_with("metrics/")) all[experiment].curves.push_back(object.key);
  }
  return all;
}

// In the place of an object of many MiB, which no agent writes: a line that is none of ours.
constexpr const char* too_long = "too long\n";

// Each object's bytes by its key, as many at once as S3 takes.
s3::Outcome<std::map<std::string, std::string>> read_all(s3::Client& client,
                                                         const std::string& bucket,
                                                         const std::vector<std::string>& keys) {
  std::map<std::string, std::string> bytes;
  std::optional<s3::Failure> failed;
  for (const std::string& key : keys) {
    client.start({.bucket = bucket, .key = key}, [&, key](s3::Outcome<s3::Answer> answer) {
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

// .../metrics/1700000000000-i-0abc.jsonl
std::string instance_of(std::string_view key) {
  key.remove_prefix(key.rfind('/') + 1);
  key.remove_prefix(key.find('-') + 1);
  return std::string(key.substr(0, key.rfind('.')));
}

void append(std::vector<std::string>& to, const std::vector<std::string>& keys) {
  to.insert(to.end(), keys.begin(), keys.end());
}

}  // namespace

s3::Outcome<std::vector<Published>> read_published(s3::Client& client,
                                                   const wire::S3Location& place, Wanted wanted) {
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
    append(keys, its.histories);
    append(keys, its.curves);
  }
  auto bytes = read_all(client, place.bucket, keys);
  if (!bytes) return tl::unexpected(std::move(bytes.error()));
  std::vector<Published> published;
  for (const auto& [experiment, its] : all) {
    Published one{.experiment = experiment, .status = (*bytes)[its.status]};
    const bool dated = its.status_written != wire::WallTime();
    if (now && dated)
      one.age = std::max<double>(0, static_cast<double>((*now - its.status_written).count()));
    std::string lines;
    for (const auto& key : its.histories) lines += (*bytes)[key] + "\n";
    one.history = wire::parse_history(lines);
    for (const auto& key : its.curves) {
      const auto read = wire::parse_curve((*bytes)[key]);
      if (const auto last = read.curve.last()) one.reached[instance_of(key)] = last->step;
      one.curve.append(read.curve);
      one.foreign += read.foreign;
    }
    published.push_back(std::move(one));
  }
  return published;
}

}  // namespace spotter::command

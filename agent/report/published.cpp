#include "agent/report/published.hpp"

#include <algorithm>
#include <iterator>

#include "agent/aws/formats/s3.hpp"

namespace spotter::report {
namespace {

// history/1700000000000-i-0abc.jsonl
std::string instance_of(std::string_view name) {
  name.remove_prefix(name.rfind('/') + 1);
  name.remove_prefix(name.find('-') + 1);
  return std::string(name.substr(0, name.rfind('.')));
}

}  // namespace

PublishedName parse_published_name(std::string_view below) {
  PublishedName name{{}, PublishedName::Kind::Other, below};
  if (const auto slash = below.find('/'); slash != below.npos) {
    if (const auto index = wire::parse_count(below.substr(0, slash))) {
      name.experiment = *index;
      name.rest = below.substr(slash + 1);
    }
  }
  if (name.rest == "status.json") name.kind = PublishedName::Kind::Status;
  if (!name.rest.ends_with(".jsonl")) return name;
  if (name.rest.starts_with("history/")) name.kind = PublishedName::Kind::History;
  if (name.rest.starts_with("metrics/")) name.kind = PublishedName::Kind::Curve;
  if (name.rest.starts_with("output/")) name.kind = PublishedName::Kind::Output;
  return name;
}

void add_published(Source& to, const PublishedName& name, std::string_view bytes) {
  if (name.kind == PublishedName::Kind::History) {
    auto more = wire::parse_history(bytes);
    std::ranges::move(more.entries, std::back_inserter(to.history.entries));
    to.history.foreign += more.foreign;
    if (!more.newer.empty()) to.history.newer = std::move(more.newer);
  } else if (name.kind == PublishedName::Kind::Curve) {
    const auto read = wire::parse_curve(bytes);
    if (const auto last = read.curve.last())
      to.reached[instance_of(name.rest)] = static_cast<std::int64_t>(last->step);
    to.curve.append(read.curve);
    if (!read.newer.empty()) to.history.newer = read.newer;
  }
}

}  // namespace spotter::report

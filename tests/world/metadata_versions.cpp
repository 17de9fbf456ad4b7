#include "tests/world/metadata_versions.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace spotter::world {

namespace {

constexpr std::array<std::string_view, 29> versions = {
    "1.0",        "2007-01-19", "2007-03-01", "2007-08-29", "2007-10-10", "2007-12-15",
    "2008-02-01", "2008-09-01", "2009-04-04", "2011-01-01", "2011-05-01", "2012-01-12",
    "2014-02-25", "2014-11-05", "2015-10-20", "2016-04-19", "2016-06-30", "2016-09-02",
    "2018-03-28", "2018-08-17", "2018-09-24", "2019-10-01", "2020-10-27", "2021-01-03",
    "2021-03-23", "2021-07-15", "2022-09-24", "2024-04-11", "latest"};

// By what a path begins with; all others are of the first.
constexpr std::array<std::pair<std::string_view, std::string_view>, 22> later = {{
    {"dynamic/instance-identity/", "2009-04-04"},
    {"meta-data/autoscaling/", "2021-07-15"},
    {"meta-data/block-device-mapping/", "2007-12-15"},
    {"meta-data/events/maintenance/", "2018-08-17"},
    {"meta-data/events/recommendations/", "2020-10-27"},
    {"meta-data/iam/", "2012-01-12"},
    {"meta-data/instance-action", "2008-09-01"},
    {"meta-data/instance-life-cycle", "2019-10-01"},
    {"meta-data/instance-type", "2007-08-29"},
    {"meta-data/local-hostname", "2007-01-19"},
    {"meta-data/mac", "2011-01-01"},
    {"meta-data/network/", "2011-01-01"},
    {"meta-data/placement/availability-zone-id", "2019-10-01"},
    {"meta-data/placement/availability-zone", "2008-02-01"},
    {"meta-data/placement/region", "2020-08-24"},
    {"meta-data/profile", "2007-12-15"},
    {"meta-data/services/domain", "2014-02-25"},
    {"meta-data/services/partition", "2015-10-20"},
    {"meta-data/spot/instance-action", "2016-11-15"},
    {"meta-data/spot/termination-time", "2014-11-05"},
    {"meta-data/system", "2022-09-24"},
    {"meta-data/tags/", "2021-03-23"},
}};

}  // namespace

std::string metadata_versions() {
  std::string all;
  for (const std::string_view each : versions) all.append(all.empty() ? "" : "\n").append(each);
  return all;
}

bool is_metadata_version(std::string_view version) {
  return std::find(versions.begin(), versions.end(), version) != versions.end();
}

std::string_view released_with(std::string_view path) {
  const auto found = std::find_if(later.begin(), later.end(),
                                  [&](const auto& each) { return path.starts_with(each.first); });
  return found == later.end() ? versions.front() : found->second;
}

}  // namespace spotter::world

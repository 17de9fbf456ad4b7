#include "tests/emulator/regions.hpp"

#include <algorithm>
#include <iterator>

namespace spotter::emulator {
namespace {

std::string region_of(const Zone& zone) {
  const std::string name = zone.str();
  return name.substr(0, name.empty() ? 0 : name.size() - 1);
}

// Far apart: two worlds draw their ids from it.
constexpr std::uint64_t apart = 0x9E3779B97F4A7C15;

}  // namespace

Regions::Regions(const world::Settings& settings, std::uint64_t seed) {
  std::vector<std::string> names;
  for (const Zone& zone : settings.zones)
    if (std::ranges::find(names, region_of(zone)) == names.end()) names.push_back(region_of(zone));
  for (const std::string& name : names) {
    world::Settings its = settings;
    its.region = Region(name);
    std::erase_if(its.zones, [&](const Zone& zone) { return region_of(zone) != name; });
    its.foreign_images = !worlds_.empty();
    worlds_.push_back(std::make_unique<world::World>(std::move(its), seed));
    seed += apart;
  }
  if (worlds_.empty()) worlds_.push_back(std::make_unique<world::World>(settings, seed));
}

void Regions::reset(const world::Settings& settings, std::uint64_t seed) {
  Regions fresh(settings, seed);
  for (std::size_t i = 0; i < worlds_.size(); ++i) *worlds_[i] = std::move(*fresh.worlds_[i]);
}

world::World* Regions::named(std::string_view region) {
  for (const auto& it : worlds_)
    if (it->settings().region.view() == region) return it.get();
  return nullptr;
}

world::World& Regions::of(const InstanceId& id) {
  for (const auto& it : worlds_)
    if (it->cloud().instances.find(id) != nullptr) return *it;
  return home();
}

world::World& Regions::of(const VolumeId& id) {
  for (const auto& it : worlds_)
    if (it->cloud().volumes.find(id) != nullptr) return *it;
  return home();
}

world::World& Regions::of(const Zone& zone) {
  for (const auto& it : worlds_)
    if (it->cloud().has_zone(zone)) return *it;
  return home();
}

std::optional<world::Credential> Regions::credential(std::string_view access_key, Time now) {
  for (const auto& it : worlds_)
    if (auto found = it->credential(access_key, now)) return found;
  return std::nullopt;
}

std::vector<world::Occurrence> Regions::advance(Time now) {
  std::vector<world::Occurrence> all;
  for (const auto& it : worlds_) std::ranges::move(it->advance(now), std::back_inserter(all));
  return all;
}

std::optional<Time> Regions::next() const {
  std::optional<Time> first;
  for (const auto& it : worlds_)
    if (const auto next = it->next(); next && (!first || *next < *first)) first = next;
  return first;
}

}  // namespace spotter::emulator

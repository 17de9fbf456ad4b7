#include "trainer/library/position.hpp"

namespace spotter::channel {

void record(nlohmann::json& meta, const std::string& channel, const Position& position) {
  meta[kPositions][channel] = {
      {"epoch", position.epoch}, {"bytes", position.bytes}, {"records", position.records}};
}

Result<Position> recorded(const nlohmann::json& meta, const std::string& channel) {
  const auto all = meta.find(kPositions);
  if (all == meta.end()) return Position{};
  const auto unreadable = [&] {
    return failure("the checkpoint's position in channel " + channel + " is not readable");
  };
  if (!all->is_object()) return unreadable();
  const auto found = all->find(channel);
  if (found == all->end()) return Position{};
  Position position;
  for (const auto& [name, value] :
       {std::pair("epoch", &position.epoch), std::pair("bytes", &position.bytes),
        std::pair("records", &position.records)}) {
    if (!found->is_object() || !found->contains(name)) return unreadable();
    const auto& number = (*found)[name];
    if (!number.is_number_unsigned()) return unreadable();
    *value = number.get<std::uint64_t>();
  }
  return position;
}

}  // namespace spotter::channel

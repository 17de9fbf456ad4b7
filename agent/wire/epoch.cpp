#include "agent/wire/epoch.hpp"

#include <algorithm>
#include <array>
#include <limits>

#include "agent/base/json.hpp"
#include "agent/base/version.hpp"

namespace spotter::wire {
namespace {

constexpr std::uint64_t known_epoch = 1;
constexpr std::array<const char*, 4> states = {"using", "moving", "released", "done"};
// The next one must fit, too.
constexpr std::uint64_t most = std::numeric_limits<std::uint32_t>::max() - 1;

// A name of EC2: "vol-..." or "i-...". Cut to its length it would be another's.
template <class Id>
bool read_id(const nlohmann::json& json, const char* key, const std::string& prefix, Id& id) {
  const std::string text = text_field(json, key);
  id = Id(text);
  const bool fits = id.view() == text && text.size() > prefix.size() && text.starts_with(prefix);
  return fits && std::all_of(text.begin(), text.end(), [](unsigned char c) {
           return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
         });
}

bool read_count(const nlohmann::json& json, const char* key, std::uint32_t& count) {
  const auto found = json.find(key);
  if (found == json.end() || !found->is_number_unsigned()) return false;
  const auto value = found->get<std::uint64_t>();
  count = static_cast<std::uint32_t>(std::min(value, most));
  return value <= most;
}

}  // namespace

std::string to_json(const decide::Epoch& epoch) {
  const nlohmann::json json = {{"version", known_epoch},
                               {"epoch", epoch.number},
                               {"state", states[static_cast<std::size_t>(epoch.state)]},
                               {"line", epoch.line.view()},
                               {"volume", epoch.volume.view()},
                               {"generation", epoch.generation},
                               {"holder", epoch.holder.view()},
                               {"left", epoch.left.view()}};
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

Result<decide::Epoch> parse_epoch(std::string_view text) {
  const auto json = parse_json_object(text);
  if (!json) return tl::unexpected(json.error());
  if (auto newer_one = newer(*json, "version", known_epoch, "the epoch"))
    return tl::unexpected<Error>(std::move(*newer_one));
  decide::Epoch epoch;
  const auto state = std::find(states.begin(), states.end(), text_field(*json, "state"));
  if (state == states.end()) return failure("its state is no state of an epoch");
  epoch.state = static_cast<decide::Epoch::State>(state - states.begin());
  const bool counts = read_count(*json, "epoch", epoch.number) && epoch.number > 0 &&
                      read_count(*json, "generation", epoch.generation);
  if (!counts) return failure("its epoch or generation is no number that an epoch has");
  const bool names = read_id(*json, "line", "vol-", epoch.line) &&
                     read_id(*json, "volume", "vol-", epoch.volume) &&
                     read_id(*json, "holder", "i-", epoch.holder);
  if (!names) return failure("its line, volume or holder is no id of EC2");
  const bool left = text_field(*json, "left").empty() || read_id(*json, "left", "vol-", epoch.left);
  if (!left) return failure("its `left` is no id of a volume");
  return epoch;
}

}  // namespace spotter::wire

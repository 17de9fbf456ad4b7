#include "agent/wire/head.hpp"

#include <algorithm>
#include <array>
#include <limits>

#include "agent/base/json.hpp"
#include "agent/base/version.hpp"

namespace spotter::wire {
namespace {

constexpr std::uint64_t known_head = 1;
constexpr std::array<const char*, 4> head_states = {"using", "moving", "released", "done"};
// The next one must fit, too.
constexpr std::uint64_t most_head_epochs = std::numeric_limits<std::uint32_t>::max() - 1;
constexpr std::uint64_t most_of_head = std::numeric_limits<std::int64_t>::max();

bool read_number(const nlohmann::json& json, const char* key, std::uint64_t limit,
                 std::uint64_t& count) {
  const auto found = json.find(key);
  if (found == json.end() || !found->is_number_unsigned()) return false;
  count = found->get<std::uint64_t>();
  return count <= limit;
}

// Cut to its length it would be another's.
bool read_holder(const nlohmann::json& json, InstanceId& holder) {
  const std::string text = text_field(json, "holder");
  holder = InstanceId(text);
  const auto fits = [](unsigned char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
  };
  return !text.empty() && holder.view() == text && std::all_of(text.begin(), text.end(), fits);
}

}  // namespace

bool operator==(const Head& a, const Head& b) { return to_json(a) == to_json(b); }

bool is_home_id(std::string_view id) {
  return id.size() == 32 && std::ranges::all_of(id, [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

bool is_manifest_name(std::string_view name) {
  constexpr std::string_view begin = "manifests/";
  constexpr std::string_view end = ".json";
  if (!name.starts_with(begin) || !name.ends_with(end)) return false;
  name = name.substr(begin.size());
  const auto dash = name.find('-');
  if (dash == 0 || dash > 10 || name.size() != dash + 1 + 32 + end.size()) return false;
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  return std::all_of(name.begin(), name.begin() + static_cast<std::ptrdiff_t>(dash), is_digit) &&
         is_home_id(name.substr(dash + 1, 32));
}

std::string to_json(const Head& head) {
  nlohmann::json json = {{"version", known_head},
                         {"epoch", head.epoch.number},
                         {"state", head_states[static_cast<std::size_t>(head.epoch.state)]},
                         {"holder", head.epoch.holder.view()},
                         {"job", head.job},
                         {"commits", head.commits},
                         {"manifest", head.manifest},
                         {"bytes", head.bytes}};
  if (!head.id.empty()) json["id"] = head.id;
  if (head.newest >= 0) json["newest"] = head.newest;
  if (head.attempt != 0) json["attempt"] = head.attempt;
  if (head.s3_writes != 0) json["s3_writes"] = head.s3_writes;
  if (head.s3_reads != 0) json["s3_reads"] = head.s3_reads;
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

Result<Head> parse_head(std::string_view text) {
  const auto json = parse_json_object(text);
  if (!json) return tl::unexpected(json.error());
  if (auto newer_one = newer(*json, "version", known_head, "the head"))
    return tl::unexpected<Error>(std::move(*newer_one));
  Head head;
  const auto state = std::find(head_states.begin(), head_states.end(), text_field(*json, "state"));
  if (state == head_states.end()) return failure("its state is no state of an epoch");
  head.epoch.state = static_cast<decide::Epoch::State>(state - head_states.begin());
  std::uint64_t number = 0;
  if (!read_number(*json, "epoch", most_head_epochs, number) || number == 0)
    return failure("its epoch is no number that an epoch has");
  head.epoch.number = static_cast<std::uint32_t>(number);
  if (!read_holder(*json, head.epoch.holder)) return failure("its holder has no name of a holder");
  if (!read_number(*json, "commits", most_of_head - 1, head.commits) ||
      !read_number(*json, "bytes", most_of_head, head.bytes))
    return failure("its counts are no numbers");
  for (const auto& [key, count] : {std::pair{"attempt", &head.attempt},
                                   {"s3_writes", &head.s3_writes},
                                   {"s3_reads", &head.s3_reads}})
    if (json->contains(key) && !read_number(*json, key, most_of_head, *count))
      return failure(std::string("its ") + key + " is no number");
  if (json->contains("newest")) {
    std::uint64_t newest = 0;
    if (!read_number(*json, "newest", most_of_head, newest))
      return failure("its step is no number");
    head.newest = static_cast<std::int64_t>(newest);
  }
  head.job = text_field(*json, "job");
  head.id = text_field(*json, "id");
  if (!head.id.empty() && !is_home_id(head.id)) return failure("its id is none of a home");
  head.manifest = text_field(*json, "manifest");
  if (!head.manifest.empty() && !is_manifest_name(head.manifest))
    return failure("it names no manifest of a home");
  return head;
}

}  // namespace spotter::wire

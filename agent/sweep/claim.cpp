#include "agent/sweep/claim.hpp"

#include <array>
#include <cstdio>

#include "agent/aws/formats/s3.hpp"
#include "agent/base/json.hpp"
#include "agent/base/version.hpp"
#include "agent/config/parameters.hpp"

namespace spotter::sweep {
namespace {

constexpr std::uint64_t known_claim = 1;
constexpr std::string_view attempt_prefix = "attempt-";
constexpr std::array<const char*, 4> claim_states = {"held", "given", "done", "failed"};

std::string name(std::size_t index, const char* kind) {
  char text[48];
  std::snprintf(text, sizeof text, "%05zu.%s", index, kind);
  return text;
}

}  // namespace

std::string to_json(const Claim& claim) {
  const nlohmann::json json = {
      {"version", known_claim},     {"state", claim_states[static_cast<std::size_t>(claim.state)]},
      {"token", claim.token},       {"holder", claim.holder},
      {"nonce", claim.nonce},       {"span_ms", claim.span.count()},
      {"failures", claim.failures}, {"parent", claim.parent}};
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

Result<Claim> parse_claim(std::string_view text) {
  const auto json = wire::parse_json_object(text);
  if (!json) return tl::unexpected(json.error());
  if (auto newer = wire::newer(*json, "version", known_claim, "the claim"))
    return tl::unexpected<Error>(std::move(*newer));
  Claim claim;
  const std::string state = wire::text_field(*json, "state");
  std::size_t which = 0;
  while (which < claim_states.size() && state != claim_states[which]) ++which;
  if (which == claim_states.size()) return failure("'" + state + "' is no state of a claim");
  claim.state = static_cast<Claim::State>(which);
  const auto number = [&](const char* field, std::uint64_t most) {
    const auto found = json->find(field);
    const bool good = found != json->end() && found->is_number_unsigned();
    return good && found->get<std::uint64_t>() <= most ? found->get<std::uint64_t>() : most + 1;
  };
  constexpr std::uint64_t week_ms = 7ULL * 24 * 3600 * 1000;
  constexpr std::uint64_t most_tokens = 1ULL << 40U;
  constexpr std::uint64_t most_failures = 1'000'000;
  claim.token = number("token", most_tokens);
  claim.failures = static_cast<std::uint32_t>(number("failures", most_failures));
  const std::uint64_t span = number("span_ms", week_ms);
  if (claim.token == 0 || claim.token > most_tokens || claim.failures > most_failures ||
      span > week_ms)
    return failure("its token, failures or span_ms is no number that a claim has");
  claim.span = Duration(span);
  claim.holder = wire::text_field(*json, "holder");
  claim.nonce = wire::text_field(*json, "nonce");
  claim.parent = wire::text_field(*json, "parent");
  // Whoever may write to the bucket chooses it, and a folder of that name is copied.
  if (!claim.parent.empty() && !attempt_token(claim.parent))
    return failure("its parent is no attempt's name");
  return claim;
}

std::string claim_name(std::size_t index) { return name(index, "claim"); }

std::string result_name(std::size_t index) { return name(index, "result"); }

std::string hint_name(std::size_t index, Hint hint) {
  return name(index, hint == Hint::Ended ? "ended" : "given");
}

std::string to_json(const Owner& owner) {
  const nlohmann::json json = {
      {"version", known_claim}, {"id", owner.id}, {"storage", owner.storage}};
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

Result<Owner> parse_owner(std::string_view text) {
  const auto json = wire::parse_json_object(text);
  if (!json) return tl::unexpected(json.error());
  if (auto newer = wire::newer(*json, "version", known_claim, "the claims' owner"))
    return tl::unexpected<Error>(std::move(*newer));
  Owner owner{wire::text_field(*json, "id"), wire::text_field(*json, "storage")};
  if (owner.id.empty()) return failure("it has no id");
  return owner;
}

std::optional<ObjectName> parse_object_name(std::string_view name) {
  const auto dot = name.find('.');
  if (dot == name.npos) return std::nullopt;
  const auto index = wire::parse_count(name.substr(0, dot));
  if (!index || *index >= most_sets) return std::nullopt;
  return ObjectName{static_cast<std::size_t>(*index), name.substr(dot + 1)};
}

std::string attempt_name(std::uint64_t token) {
  return std::string(attempt_prefix) + std::to_string(token);
}

std::optional<std::uint64_t> attempt_token(std::string_view name) {
  if (!name.starts_with(attempt_prefix)) return std::nullopt;
  return wire::parse_count(name.substr(attempt_prefix.size()));
}

}  // namespace spotter::sweep

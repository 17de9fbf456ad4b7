#include "agent/sweep/claim.hpp"

#include "agent/aws/formats/s3.hpp"
#include "agent/base/record.hpp"
#include "agent/base/text.hpp"
#include "agent/config/parameters.hpp"

namespace spotter::sweep {
namespace {

constexpr std::uint64_t known_claim = 1;
constexpr std::string_view attempt_prefix = "attempt-";

std::string name(std::size_t index, const char* kind) { return printed("%05zu.%s", index, kind); }

}  // namespace

std::string to_json(const Claim& claim) { return wire::document_of(claim, known_claim); }

Result<Claim> parse_claim(std::string_view text) {
  auto claim = TRY(wire::parse_document<Claim>(text, known_claim, "the claim"));
  constexpr std::uint64_t most_tokens = 1ULL << 40U;
  constexpr std::uint32_t most_failures = 1'000'000;
  if (claim.token == 0 || claim.token > most_tokens || claim.failures > most_failures ||
      claim.span > std::chrono::weeks(1))
    return failure("its token, failures or span_ms is no number that a claim has");
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

std::string to_json(const Owner& owner) { return wire::document_of(owner, known_claim); }

Result<Owner> parse_owner(std::string_view text) {
  auto owner = wire::parse_document<Owner>(text, known_claim, "the claims' owner");
  if (owner && owner->id.empty()) return failure("it has no id");
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

#include "trainer/library/manifest.hpp"

#include <xxhash.h>

#include <algorithm>
#include <cassert>
#include <set>

#include "agent/base/record.hpp"
#include "agent/base/text.hpp"

namespace spotter::checkpoint {

namespace {

constexpr int kFormat = 1;
constexpr std::size_t kDigits = 32;
constexpr std::string_view kSumMember = ",\"xxh3_128\":\"";
constexpr std::string_view kEnd = "\"}\n";
static_assert(kSealBytes == kSumMember.size() + kDigits + kEnd.size());

std::string digits_of(XXH128_hash_t hash) {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, hash);
  return hexadecimal({reinterpret_cast<const char*>(canonical.digest), sizeof canonical.digest});
}

Result<std::vector<PartEntry>> decode_parts(const nlohmann::json& list) {
  std::vector<PartEntry> parts;
  std::set<std::string> names;
  if (const auto wrong = wire::read_value(list, parts); !wrong.empty())
    return failure("`parts`" + wrong);
  for (const PartEntry& part : parts) {
    if (!is_part_name(part.name) || !names.insert(part.name).second)
      return failure("not a part's name, or twice: " + part.name);
    if (!is_sum(part.xxh3_128)) return failure("not a sum: " + part.xxh3_128);
  }
  return parts;
}

}  // namespace

struct Sum::State {
  XXH3_state_t* hash = XXH3_createState();
  ~State() { XXH3_freeState(hash); }
};

Sum::Sum() : state_(std::make_unique<State>()) {
  assert(state_->hash != nullptr);
  XXH3_128bits_reset(state_->hash);
}
Sum::~Sum() = default;
void Sum::add(std::string_view bytes) {
  XXH3_128bits_update(state_->hash, bytes.data(), bytes.size());
}
std::string Sum::hex() const { return digits_of(XXH3_128bits_digest(state_->hash)); }

std::string sum_of(std::string_view bytes) {
  return digits_of(XXH3_128bits(bytes.data(), bytes.size()));
}

bool is_sum(std::string_view text) {
  return text.size() == kDigits &&
         text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

bool is_plain(std::string_view text) {
  return text.find_first_of("\"\\") == std::string_view::npos &&
         nlohmann::json::accept("\"" + std::string(text) + "\"");
}

std::string seal(const nlohmann::json& object) {
  // `replace`: what is not UTF-8 must not prevent a checkpoint.
  std::string bytes = wire::json_text(object);
  bytes.pop_back();
  const std::string sum = sum_of(bytes);
  bytes.append(kSumMember).append(sum).append(kEnd);
  return bytes;
}

std::optional<nlohmann::json> unseal(std::string_view bytes) {
  if (bytes.size() < kSealBytes) return std::nullopt;
  const std::string_view body = bytes.substr(0, bytes.size() - kSealBytes);
  const std::string_view tail = bytes.substr(body.size());
  if (!tail.starts_with(kSumMember) || !tail.ends_with(kEnd) ||
      tail.substr(kSumMember.size(), kDigits) != sum_of(body)) {
    return std::nullopt;
  }
  return nlohmann::json::parse(bytes, nullptr, false);
}

bool is_part_name(std::string_view name) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  };
  return !name.empty() && name.size() <= 100 && name.front() != '.' && name != kManifestName &&
         std::all_of(name.begin(), name.end(), allowed);
}

std::string encode(const Manifest& manifest) {
  nlohmann::json body = {{"format", kFormat},
                         {"step", manifest.step},
                         {"parts", wire::shown_value(manifest.parts)},
                         {"meta", manifest.meta}};
  if (manifest.metric) body["metric"] = *manifest.metric;
  return seal(body);
}

Result<Manifest> decode(std::string_view bytes) {
  if (bytes.size() < kSealBytes || bytes.size() > kManifestLimit) return failure("not a manifest");
  const auto unsealed = unseal(bytes);
  if (!unsealed) return failure("the manifest's own sum is wrong");
  const nlohmann::json& json = *unsealed;
  if (!json.is_object()) return failure("the manifest is not a JSON object");
  if (auto newer = wire::newer(json, "format", kFormat, "this checkpoint"))
    return tl::unexpected(std::move(*newer));
  if (json.value("format", nlohmann::json()) != kFormat) return failure("no format");
  if (!json.contains("step") || !json["step"].is_number_unsigned()) return failure("no step");
  auto parts = TRY(decode_parts(json.value("parts", nlohmann::json())));
  Manifest manifest{
      json["step"], std::move(parts), json.value("meta", nlohmann::json::object()), {}};
  if (json.contains("metric") && json["metric"].is_number()) manifest.metric = json["metric"];
  return manifest;
}

}  // namespace spotter::checkpoint

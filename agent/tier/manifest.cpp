#include "agent/tier/manifest.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "agent/guard/plain.hpp"
#include "trainer/library/manifest.hpp"

namespace spotter::tier {
namespace {

// checkpoint-500/pytorch_model_fsdp_0/__0_0.distcp has 2 folders, Orbax's parameters have 4.
constexpr int parts_depth = 8;

using nlohmann::json;

constexpr std::uint64_t known_format = 1;
constexpr std::size_t name_limit = 255;  // bytes: NAME_MAX
constexpr std::uint64_t bytes_limit = std::uint64_t{1} << 53;

bool is_component(std::string_view name) {
  return !name.empty() && name != "." && name != ".." && name.size() <= name_limit;
}

// Adds the folders on the way to it.
bool is_part_path(const std::string& path, std::set<std::string, std::less<>>& folders) {
  if (path.size() > key_limit || !guard::is_plain(path)) return false;
  int depth = 0;
  std::size_t begin = 0;
  for (std::size_t slash = path.find('/'); slash != path.npos; slash = path.find('/', begin)) {
    if (!is_component(std::string_view(path).substr(begin, slash - begin))) return false;
    if (++depth > parts_depth) return false;
    folders.insert(path.substr(0, slash));
    begin = slash + 1;
  }
  return is_component(std::string_view(path).substr(begin));
}

// Sorted, each once, none of them a folder of another.
bool are_files_of_a_folder(const std::vector<guard::Part>& parts) {
  if (parts.empty() || parts.size() > parts_limit) return false;
  std::set<std::string, std::less<>> folders;
  std::uint64_t bytes = 0;
  const guard::Part* before = nullptr;
  for (const guard::Part& part : parts) {
    if (!is_part_path(part.name, folders) || !checkpoint::is_sum(part.sum)) return false;
    if (before != nullptr && before->name >= part.name) return false;
    if (part.bytes > bytes_limit - bytes) return false;
    bytes += part.bytes;
    before = &part;
  }
  return std::ranges::none_of(
      parts, [&folders](const guard::Part& part) { return folders.contains(part.name); });
}

json to_json(const guard::Part& part) {
  return {
      {"name", part.name}, {"bytes", part.bytes}, {"mtime_ns", part.mtime_ns}, {"sum", part.sum}};
}

// By reference: a conversion would turn a negative number or a fraction into another number.
std::uint64_t count_in(const json& object, const char* name) {
  return object.at(name).get_ref<const json::number_unsigned_t&>();
}

std::int64_t time_in(const json& object, const char* name) {
  return object.at(name).get_ref<const json::number_integer_t&>();
}

Manifest manifest_of(const json& object) {
  Manifest manifest{object.at("job").get<std::string>(),
                    object.at("name").get<std::string>(),
                    count_in(object, "step"),
                    time_in(object, "saved_ms"),
                    {}};
  const json& parts = object.at("parts");
  if (!parts.is_array() || parts.size() > parts_limit) return manifest;
  for (const json& part : parts) {
    manifest.parts.push_back({part.at("name").get<std::string>(), count_in(part, "bytes"),
                              time_in(part, "mtime_ns"), part.at("sum").get<std::string>()});
  }
  return manifest;
}

}  // namespace

bool is_folder_name(std::string_view name) {
  return is_component(name) && !name.starts_with('.') && name.find('/') == name.npos &&
         guard::is_plain(std::string(name));
}

std::string encode(const Manifest& manifest) {
  json parts = json::array();
  for (const guard::Part& part : manifest.parts) parts.push_back(to_json(part));
  const json object = {{"format", known_format},        {"job", manifest.job},
                       {"name", manifest.name},         {"step", manifest.step},
                       {"saved_ms", manifest.saved_ms}, {"parts", std::move(parts)}};
  return checkpoint::seal(object);
}

Result<Manifest> decode(std::string_view bytes) {
  const auto damaged = [] { return failure("the manifest is damaged"); };
  if (bytes.size() > manifest_limit) return damaged();
  const auto unsealed = checkpoint::unseal(bytes);
  if (!unsealed || !unsealed->is_object()) return damaged();
  const json& object = *unsealed;
  if (auto newer = wire::newer(object, "format", known_format, "the manifest"))
    return tl::unexpected(std::move(*newer));
  try {
    if (count_in(object, "format") != known_format) return damaged();
    Manifest manifest = manifest_of(object);
    if (!is_folder_name(manifest.name) || !guard::is_plain(manifest.job)) return damaged();
    if (!are_files_of_a_folder(manifest.parts))
      return failure("the manifest names files that no checkpoint has");
    return manifest;
  } catch (const json::exception&) {
    return damaged();
  }
}

}  // namespace spotter::tier

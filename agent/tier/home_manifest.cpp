#include "agent/tier/home_manifest.hpp"

#include <nlohmann/json.hpp>

#include "agent/base/version.hpp"
#include "agent/guard/plain.hpp"
#include "agent/tier/manifest.hpp"
#include "trainer/library/manifest.hpp"

namespace spotter::tier {
namespace {

using nlohmann::json;

constexpr std::uint64_t home_format = 1;
constexpr std::uint64_t most_file_bytes = std::uint64_t{1} << 53;
constexpr std::size_t longest_name = 255;  // bytes: NAME_MAX
constexpr std::uint64_t last_epoch = UINT32_MAX;

json to_json(const std::string& path, const KeptFile& file) {
  return {{"path", path},
          {"bytes", file.bytes},
          {"mtime_ns", file.mtime_ns},
          {"sum", file.sum},
          {"epoch", file.epoch}};
}

// By reference: a conversion would turn a negative number or a fraction into another number.
std::uint64_t number_in(const json& object, const char* name) {
  return object.at(name).get_ref<const json::number_unsigned_t&>();
}

bool add(const json& object, HomeManifest& manifest) {
  const auto path = object.at("path").get<std::string>();
  KeptFile file{number_in(object, "bytes"),
                object.at("mtime_ns").get_ref<const json::number_integer_t&>(),
                object.at("sum").get<std::string>(), 0};
  const std::uint64_t epoch = number_in(object, "epoch");
  file.epoch = static_cast<std::uint32_t>(epoch);
  const bool good = is_kept_path(path) && file.bytes <= most_file_bytes &&
                    checkpoint::is_sum(file.sum) && epoch > 0 && epoch <= last_epoch;
  return good && manifest.files.emplace(path, std::move(file)).second;
}

// No file where another one needs a folder.
bool are_files(const HomeManifest& manifest) {
  for (const auto& [path, file] : manifest.files) {
    const auto below = manifest.files.lower_bound(path + "/");
    if (below != manifest.files.end() && below->first.starts_with(path + "/")) return false;
  }
  return true;
}

}  // namespace

std::string KeptFile::key() const {
  return "data/" + std::to_string(epoch) + "/" + sum + "-" + std::to_string(bytes);
}

bool is_kept_path(std::string_view path) {
  if (path.empty() || path.size() > key_limit || !guard::is_plain(std::string(path))) return false;
  for (std::size_t begin = 0; begin <= path.size();) {
    const auto end = std::min(path.find('/', begin), path.size());
    const auto name = path.substr(begin, end - begin);
    if (name.empty() || name == "." || name == ".." || name.size() > longest_name) return false;
    begin = end + 1;
  }
  return true;
}

std::string encode(const HomeManifest& manifest) {
  json files = json::array();
  for (const auto& [path, file] : manifest.files) files.push_back(to_json(path, file));
  json object = {{"format", home_format}, {"job", manifest.job}, {"files", std::move(files)}};
  if (manifest.newest >= 0) object["newest"] = static_cast<std::uint64_t>(manifest.newest);
  return checkpoint::seal(object);
}

Result<HomeManifest> decode_home(std::string_view bytes) {
  const auto damaged = [] { return failure("the manifest is damaged"); };
  if (bytes.size() > home_manifest_limit) return damaged();
  const auto unsealed = checkpoint::unseal(bytes);
  if (!unsealed || !unsealed->is_object()) return damaged();
  const json& object = *unsealed;
  if (auto newer = wire::newer(object, "format", home_format, "the manifest"))
    return tl::unexpected(std::move(*newer));
  try {
    if (number_in(object, "format") != home_format) return damaged();
    HomeManifest manifest{object.at("job").get<std::string>(), -1, {}};
    if (object.contains("newest")) {
      const std::uint64_t newest = number_in(object, "newest");
      if (newest > most_file_bytes) return damaged();
      manifest.newest = static_cast<std::int64_t>(newest);
    }
    const json& files = object.at("files");
    if (!files.is_array() || files.size() > most_kept_files) return damaged();
    for (const json& file : files)
      if (!add(file, manifest)) return failure("the manifest names files that no home has");
    if (!are_files(manifest)) return failure("the manifest names files that no home has");
    return manifest;
  } catch (const json::exception&) {
    return damaged();
  }
}

}  // namespace spotter::tier

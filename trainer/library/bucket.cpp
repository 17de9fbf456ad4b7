#include "trainer/library/bucket.hpp"

#include <algorithm>
#include <array>
#include <chrono>

#include "agent/aws/s3/objects.hpp"
#include "agent/base/record.hpp"
#include "trainer/library/manifest.hpp"

namespace spotter::bucket {
namespace {

using nlohmann::json;

constexpr std::uint64_t known_format = 1;
constexpr std::size_t longest_name = 255;  // bytes: NAME_MAX
constexpr std::size_t longest_path = 1024;
constexpr int deepest = 32;  // Orbax's parameters have 4 folders
constexpr std::uint64_t most_bytes = std::uint64_t{1} << 53;
constexpr std::uint64_t largest_object = std::uint64_t{5} << 40;
constexpr auto copied_within = std::chrono::hours(24);

constexpr std::string_view manifests_folder = "manifests/";
constexpr std::string_view data_folder = "data/";
constexpr std::string_view manifest_end = ".json";

bool is_component(std::string_view name) {
  return !name.empty() && name != "." && name != ".." && name.size() <= longest_name;
}

bool is_group(const std::string& group) {
  return !group.empty() && group.find('/') == group.npos && checkpoint::is_plain(group);
}

// The sealed text's JSON, as it is written.
struct FileRecord {
  static constexpr std::string_view keys = "path! bytes! mtime_ns! sum! group!";
  std::string path;
  std::uint64_t bytes = 0;
  std::int64_t mtime_ns = 0;
  std::string sum, group;
};
struct Record {
  static constexpr std::string_view keys = "format! job! files! name? step saved_ms? metric";
  std::uint64_t format = known_format;
  std::string job;
  std::vector<FileRecord> files;
  std::string name;
  std::optional<std::uint64_t> step;
  std::int64_t saved_ms = 0;
  std::optional<double> metric;
};

// No file where another one needs a folder.
bool are_files(const Files& files) {
  std::uint64_t bytes = 0;
  for (const auto& [path, file] : files) {
    const auto below = files.lower_bound(path + "/");
    if (below != files.end() && below->first.starts_with(path + "/")) return false;
    if (file.bytes > largest_object || file.bytes > most_bytes - bytes) return false;
    bytes += file.bytes;
  }
  return true;
}

tl::unexpected<Error> damaged() { return failure("the manifest is damaged", torn); }

}  // namespace

std::string File::key() const {
  return std::string(data_folder) + group + "/" + sum + "-" + std::to_string(bytes);
}

std::string key_of(const Files::value_type& file) {
  return file.second.group.empty() ? file.first : file.second.key();
}

std::string Manifest::sum() const {
  std::string lines;
  for (const auto& [path, file] : files)
    lines += path + '\n' + std::to_string(file.bytes) + '\n' + file.sum + '\n';
  return checkpoint::sum_of(lines);
}

bool is_folder_name(std::string_view name) {
  return is_component(name) && !name.starts_with('.') && name.find('/') == name.npos &&
         checkpoint::is_plain(name);
}

bool is_path(std::string_view path) {
  if (path.empty() || path.size() > longest_path || !checkpoint::is_plain(path)) return false;
  int depth = 0;
  for (std::size_t begin = 0; begin <= path.size();) {
    const auto end = std::min(path.find('/', begin), path.size());
    if (!is_component(path.substr(begin, end - begin)) || ++depth > deepest) return false;
    begin = end + 1;
  }
  return true;
}

std::string encode(const Manifest& manifest) {
  Record record{.job = manifest.job,
                .name = manifest.name,
                .saved_ms = manifest.saved_ms,
                .metric = manifest.metric};
  for (const auto& [path, file] : manifest.files)
    record.files.push_back({path, file.bytes, file.mtime_ns, file.sum, file.group});
  if (manifest.step >= 0) record.step = static_cast<std::uint64_t>(manifest.step);
  return checkpoint::seal(wire::object_of(record));
}

Result<Manifest> decode(std::string_view bytes) {
  if (bytes.size() > manifest_limit) return damaged();
  const auto unsealed = checkpoint::unseal(bytes);
  if (!unsealed || !unsealed->is_object()) return damaged();
  if (auto newer = wire::newer(*unsealed, "format", known_format, "the manifest"))
    return tl::unexpected(std::move(*newer));
  // Damage is what nobody writes: also a null, and an empty name.
  const bool has_null = std::ranges::any_of(
      std::array{"name", "step", "saved_ms", "metric"},
      [&](const char* key) { return unsealed->contains(key) && (*unsealed)[key].is_null(); });
  Record record;
  if (has_null || !wire::read_record(*unsealed, record).empty() || record.format != known_format ||
      record.step.value_or(0) > INT64_MAX || !checkpoint::is_plain(record.job) ||
      (unsealed->contains("name") && !is_folder_name(record.name)))
    return damaged();
  Manifest manifest{.job = std::move(record.job),
                    .name = std::move(record.name),
                    .step = record.step ? static_cast<std::int64_t>(*record.step) : -1,
                    .saved_ms = record.saved_ms,
                    .metric = record.metric,
                    .files = {}};
  bool good = record.files.size() <= most_files && (manifest.name.empty() || !record.files.empty());
  for (const FileRecord& it : record.files) {
    good = good && is_path(it.path) && checkpoint::is_sum(it.sum) &&
           (it.group.empty() || is_group(it.group)) &&
           manifest.files.emplace(it.path, File{it.bytes, it.mtime_ns, it.sum, it.group}).second;
  }
  if (!good || !are_files(manifest.files))
    return failure("the manifest names files that cannot be", torn);
  return manifest;
}

std::string manifest_name(const std::string& stem) {
  return std::string(manifests_folder) + stem + std::string(manifest_end);
}

tl::unexpected<Error> failed(const s3::Failure& why) {
  using Kind = s3::Failure::Kind;
  const bool refused = why.kind == Kind::Permission || why.kind == Kind::Untrusted;
  // Credentials are missing for a moment while they are renewed.
  const bool passes = why.kind == Kind::Unavailable || why.kind == Kind::NoCredentials;
  return failure(why.text(), refused ? "s3-refused" : passes ? "s3" : "s3-rejected");
}

Result<std::vector<std::string>> Bucket::stems() {
  const auto listed = s3::list(client_, where(std::string(manifests_folder)));
  if (!listed) return failed(listed.error());
  std::vector<std::string> stems;
  for (const auto& object : listed->objects) {
    std::string stem = object.key.substr(at_.key.size() + manifests_folder.size());
    if (!stem.ends_with(manifest_end)) continue;
    stem.resize(stem.size() - manifest_end.size());
    if (is_group(stem)) stems.push_back(std::move(stem));
  }
  return stems;
}

Result<std::optional<Manifest>> Bucket::read(const std::string& name) {
  using Kind = s3::Failure::Kind;
  const auto content = s3::read(client_, where(name));
  if (!content && content.error().kind == Kind::NoSuchKey) return std::optional<Manifest>();
  if (!content && content.error().kind == Kind::Corrupt)
    return failure(content.error().text(), torn);
  if (!content) return failed(content.error());
  auto manifest = decode(content->bytes);
  if (!manifest)
    return failure(shown(name) + ": " + manifest.error().message, manifest.error().kind);
  if (manifest->job != job_)
    return failure(shown(name) + " is of the job '" + manifest->job +
                   "': give this one a place of its own");
  return *std::move(manifest);
}

Result<bool> Bucket::has(const std::string& name, const Manifest& manifest) {
  const auto there = TRY(read(name));
  if (!there) return false;
  if (there->sum() == manifest.sum()) return true;
  return failure(shown(name) + " is another run's: give this one a place of its own");
}

Result<void> Bucket::commit(const std::string& name, const Manifest& manifest) {
  const std::string text = encode(manifest);
  if (!decode(text))
    return failure(
        "there are too many files to be kept in a bucket, or their names or sizes are "
        "such as it does not take: " +
        std::to_string(manifest.files.size()));
  const auto put = s3::put(client_, where(name), text, {.absent = true});
  if (put) return {};
  if (put.error().kind != s3::Failure::Kind::Exists) return failed(put.error());
  const auto same = has(name, manifest);  // another writer of the same was faster
  if (!same) return tl::unexpected(same.error());
  return *same ? Result<void>() : failed(put.error());
}

Result<void> Bucket::replace(const std::string& name, const Manifest& manifest) {
  const auto put = s3::put(client_, where(name), encode(manifest));
  return put ? Result<void>() : failed(put.error());
}

Result<std::vector<Bucket::Data>> Bucket::data(const std::string& group) {
  const std::string folder(data_folder);
  const auto listed = s3::list(client_, where(folder + (group.empty() ? "" : group + "/")));
  if (!listed) return failed(listed.error());
  const auto now = wire::parse_http_date(listed->date);
  std::vector<Data> data;
  for (const wire::ListedObject& object : listed->objects) {
    std::string name = object.key.substr(at_.key.size());
    const auto end = name.find('/', folder.size());
    if (end == name.npos) continue;
    std::string its = name.substr(folder.size(), end - folder.size());
    const bool is_old =
        now && object.modified != wire::WallTime{} && *now - object.modified >= copied_within;
    data.push_back({std::move(its), std::move(name), object.size, is_old});
  }
  return data;
}

void Bucket::remove(const std::vector<std::string>& names) {
  for (const std::string& name : names)
    if (!s3::remove(client_, where(name))) return;
}

}  // namespace spotter::bucket

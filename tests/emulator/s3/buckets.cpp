// The buckets of a Store.
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/emulator/s3/store.hpp"

namespace spotter::emulator::s3 {
namespace {

using nlohmann::json;

bool write_bucket(const fs::path& path, const Bucket& bucket) {
  std::error_code failed;
  fs::create_directories(path.parent_path(), failed);
  const fs::path partial = path.string() + ".partial";
  std::ofstream file(partial, std::ios::trunc);
  file << json{{"region", bucket.region},
               {"created", bucket.created.time_since_epoch().count()},
               {"anonymous", bucket.anonymous},
               {"requester_pays", bucket.requester_pays}}
              .dump(2);
  file.close();
  if (file) fs::rename(partial, path, failed);
  return file && !failed;
}

}  // namespace

std::optional<Bucket> Store::recorded_bucket(const std::string& name) {
  const std::lock_guard lock(cache_mutex_);
  const auto known = known_buckets_.find(name);
  if (known != known_buckets_.end()) return known->second;
  std::ifstream file(hidden_ / name / "bucket.json");
  const auto document = file ? json::parse(file, nullptr, false) : json();
  if (!document.is_object()) return std::nullopt;
  const world::WallTime created{std::chrono::milliseconds{document.value("created", 0LL)}};
  return known_buckets_[name] = {name, document.value("region", region_), created,
                                 document.value("anonymous", false),
                                 document.value("requester_pays", false)};
}

// A folder that somebody made is a bucket, too.
Expected<Bucket> Store::bucket(const std::string& name) {
  struct stat status {};
  if (!api::is_bucket_name(name) || ::lstat((folder_ / name).c_str(), &status) != 0 ||
      !S_ISDIR(status.st_mode))
    return world::refusal("NoSuchBucket", "The specified bucket does not exist", 404);
  if (auto recorded = recorded_bucket(name)) return *recorded;
  return Bucket{name, region_, modified_of(identity_of(status))};
}

Expected<void> Store::record_bucket(const Bucket& bucket) {
  if (!write_bucket(hidden_ / bucket.name / "bucket.json", bucket))
    return world::refusal("InternalError", "cannot record the bucket", 500);
  const std::lock_guard lock(cache_mutex_);
  known_buckets_.erase(bucket.name);
  return {};
}

std::vector<Bucket> Store::buckets() {
  std::vector<Bucket> result;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(folder_, none))
    if (auto found = bucket(entry.path().filename().string())) result.push_back(std::move(*found));
  std::sort(result.begin(), result.end(),
            [](const Bucket& one, const Bucket& other) { return one.name < other.name; });
  return result;
}

Expected<void> Store::make_bucket(const Bucket& bucket) {
  const std::unique_lock lock(mutex_);
  if (::mkdir((folder_ / bucket.name).c_str(), 0755) != 0) {
    if (errno == EEXIST)
      return world::refusal("BucketAlreadyOwnedByYou",
                            "Your previous request to create the named bucket succeeded and you "
                            "already own it.",
                            409);
    return world::refusal("InternalError", std::strerror(errno), 500);
  }
  return record_bucket(bucket);
}

Expected<void> Store::change(const std::string& name, const std::function<void(Bucket&)>& how) {
  auto found = bucket(name);
  if (!found) return tl::unexpected(found.error());
  const std::unique_lock lock(mutex_);
  how(*found);
  return record_bucket(*found);
}

// An upload that is under way finds its draft gone.
bool Store::clear() {
  const std::unique_lock lock(mutex_);
  std::error_code failed;
  for (const auto& entry : fs::directory_iterator(folder_, failed))
    if (!failed) fs::remove_all(entry.path(), failed);
  if (!failed) fs::create_directories(hidden_ / "drafts", failed);
  aside_.clear();
  const std::lock_guard cache_lock(cache_mutex_);
  known_buckets_.clear();
  cache_.clear();
  return !failed;
}

Expected<void> Store::remove_bucket(const std::string& name) {
  if (keys(name)->at_or_after(""))
    return world::refusal("BucketNotEmpty", "The bucket you tried to delete is not empty", 409);
  const std::unique_lock lock(mutex_);
  std::error_code failed;
  fs::remove_all(hidden_ / name, failed);
  if (!failed) fs::remove_all(folder_ / name, failed);  // empty directories, if anything
  aside_.erase(name);
  const std::lock_guard cache_lock(cache_mutex_);
  known_buckets_.erase(name);
  if (failed) return world::refusal("InternalError", failed.message(), 500);
  return {};
}

}  // namespace spotter::emulator::s3

#include "tests/emulator/s3/store.hpp"

#include <fcntl.h>
#include <sys/sendfile.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>

#include "tests/world/s3/keys.hpp"

namespace spotter::emulator::s3 {
namespace {

constexpr std::size_t most_cached = 500'000;

tl::unexpected<world::ApiError> no_such_key() {
  return world::refusal("NoSuchKey", "The specified key does not exist.", 404);
}

tl::unexpected<world::ApiError> of_errno(const std::string& what) {
  return world::refusal("InternalError", what + ": " + std::strerror(errno), 500);
}

std::string hash_of(const std::string& key) {
  return api::hexadecimal(api::digest(api::Algorithm::Sha256, key));
}

// The file below `folder`, by these names; no symbolic link is followed, so nothing outside of it
// is reached. -1: there is none.
int open_below(const fs::path& folder, const std::vector<std::string>& names) {
  int directory = ::open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  for (std::size_t i = 0; i + 1 < names.size() && directory >= 0; ++i) {
    const int next =
        ::openat(directory, names[i].c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    ::close(directory);
    directory = next;
  }
  if (directory < 0) return -1;
  const int file =
      ::openat(directory, names.back().c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  ::close(directory);
  return file;
}

std::shared_ptr<const int> shared(int descriptor) {
  return {new int(descriptor), [](const int* it) {
            ::close(*it);
            delete it;
          }};
}

// Merges the sorted keys of the folder with those kept aside.
class Both : public api::Keys {
 public:
  Both(Directories& directories, std::string folder, std::set<std::string> aside)
      : tree_(directories, std::move(folder)), aside_(std::move(aside)) {}
  std::optional<std::string> at_or_after(const std::string& key) override {
    auto plain = tree_.at_or_after(key);
    const auto other = aside_.lower_bound(key);
    if (other == aside_.end() || (plain && *plain <= *other)) return plain;
    return *other;
  }

 private:
  Tree tree_;
  std::set<std::string> aside_;
};

}  // namespace

Draft::~Draft() {
  ::close(descriptor_);
  std::error_code ignored;
  fs::remove(path_, ignored);
}

bool Draft::append(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t wrote = ::write(descriptor_, bytes.data(), bytes.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(wrote));
  }
  return true;
}

bool Draft::append_file(int from, std::uint64_t offset, std::uint64_t size) {
  auto position = static_cast<off_t>(offset);
  const auto end = static_cast<off_t>(offset + size);
  while (position < end) {
    const ssize_t sent =
        ::sendfile(descriptor_, from, &position, static_cast<std::size_t>(end - position));
    if (sent == 0) errno = EIO;
    if (sent <= 0 && !(sent < 0 && errno == EINTR)) return false;
  }
  return true;
}

Store::Store(fs::path folder, std::string region)
    : folder_(std::move(folder)), hidden_(folder_ / ".spotter"), region_(std::move(region)) {
  std::error_code ignored;
  fs::remove_all(hidden_ / "drafts", ignored);
  fs::create_directories(hidden_ / "drafts", ignored);
}

Store::Place Store::plain_place(const std::string& bucket, const std::string& key) const {
  const std::string hash = hash_of(key);
  return {folder_ / bucket / key,
          hidden_ / bucket / "objects" / hash.substr(0, 2) / (hash + ".json"), false};
}

Store::Place Store::aside_place(const std::string& bucket, const std::string& key) const {
  const fs::path folder = hidden_ / bucket / "aside";
  const std::string hash = hash_of(key);
  return {folder / hash, folder / (hash + ".json"), true};
}

fs::path Store::uploads_folder(const std::string& bucket) const {
  return hidden_ / bucket / "uploads";
}

std::set<std::string>& Store::aside_keys(const std::string& bucket) {
  const auto found = aside_.find(bucket);
  if (found != aside_.end()) return found->second;
  auto& keys = aside_[bucket];
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(hidden_ / bucket / "aside", none))
    if (entry.path().extension() == ".json")
      if (const auto record = read_record(entry.path())) keys.insert(record->key);
  return keys;
}

std::shared_ptr<const Attributes> Store::known_attributes(const std::string& name,
                                                          const Identity& identity) {
  const std::lock_guard lock(cache_mutex_);
  const auto found = cache_.find(name);
  if (found == cache_.end() || found->second.first != identity) return nullptr;
  return found->second.second;
}

void Store::know(const std::string& name, const Identity& identity,
                 std::shared_ptr<const Attributes> attributes) {
  const std::lock_guard lock(cache_mutex_);
  if (cache_.size() >= most_cached) cache_.clear();
  cache_[name] = {identity, std::move(attributes)};
}

std::shared_ptr<const Attributes> Store::read_attributes(const std::string& name,
                                                         const Identity& identity,
                                                         const Place& place, int descriptor,
                                                         const struct stat& status) {
  if (auto known = known_attributes(name, identity)) return known;
  auto record = read_record(place.record);
  auto attributes = std::make_shared<const Attributes>(record && record->identity == identity
                                                           ? std::move(record->attributes)
                                                           : derive(descriptor, status));
  know(name, identity, attributes);
  return attributes;
}

Expected<Object> Store::find(const std::string& bucket, const std::string& key, bool open) {
  {
    const std::shared_lock lock(mutex_);
    if (aside_.contains(bucket)) return find_locked(bucket, key, open);
  }
  const std::unique_lock lock(mutex_);
  aside_keys(bucket);
  return find_locked(bucket, key, open);
}

Expected<Object> Store::find_locked(const std::string& bucket, const std::string& key, bool open) {
  const auto names = api::path_of(key);
  int file = names ? open_below(folder_ / bucket, *names) : -1;
  struct stat status {};
  if (file >= 0 && (::fstat(file, &status) != 0 || !S_ISREG(status.st_mode))) {
    ::close(file);
    file = -1;
  }
  const bool aside = file < 0 && aside_.at(bucket).contains(key);
  if (aside) {
    file = ::open(aside_place(bucket, key).file.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (file >= 0) ::fstat(file, &status);
  }
  if (file < 0) return no_such_key();
  auto descriptor = shared(file);
  const Identity identity = identity_of(status);
  const std::string name = bucket + '/' + key;
  auto attributes = known_attributes(name, identity);
  if (!attributes) {
    const Place place = aside ? aside_place(bucket, key) : plain_place(bucket, key);
    attributes = read_attributes(name, identity, place, file, status);
  }
  return Object{key, identity, std::move(attributes), open ? std::move(descriptor) : nullptr};
}

std::optional<Object> Store::look(const std::string& bucket, const std::string& key) {
  struct stat status {};
  if (::lstat((folder_ / bucket / key).c_str(), &status) == 0 && S_ISREG(status.st_mode)) {
    const Identity identity = identity_of(status);
    if (auto known = known_attributes(bucket + '/' + key, identity))
      return Object{key, identity, std::move(known)};
  }
  const auto found = find(bucket, key, false);
  if (!found) return std::nullopt;
  return *found;
}

std::unique_ptr<api::Keys> Store::keys(const std::string& bucket) {
  const std::unique_lock lock(mutex_);
  return std::make_unique<Both>(directories_, (folder_ / bucket).string(), aside_keys(bucket));
}

std::shared_ptr<Draft> Store::draft() {
  static std::atomic<std::uint64_t> count{0};
  fs::path path = hidden_ / "drafts" / std::to_string(++count);
  const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (file < 0) return nullptr;
  return std::make_shared<Draft>(std::move(path), file);
}

// A key whose way is barred (a part of it is an object, or it is the way to others) goes aside: in
// S3 "a" and "a/b" are two objects.
Expected<Store::Place> Store::install(const std::string& bucket, const std::string& key,
                                      Draft& draft) {
  const auto names = api::path_of(key);
  std::error_code failed;
  bool clear = names.has_value();
  fs::path folder = folder_ / bucket;
  if (!fs::is_directory(folder, failed))  // it was removed while the object came
    return world::refusal("NoSuchBucket", "The specified bucket does not exist", 404);
  for (std::size_t i = 0; clear && i + 1 < names->size(); ++i) {
    folder /= (*names)[i];
    if (::mkdir(folder.c_str(), 0755) == 0) continue;
    clear =
        errno == EEXIST && fs::symlink_status(folder, failed).type() == fs::file_type::directory;
  }
  if (clear) {
    const Place place = plain_place(bucket, key);
    if (::rename(draft.path().c_str(), place.file.c_str()) == 0) return place;
    if (errno != EISDIR && errno != ENAMETOOLONG) return of_errno("cannot put the object in place");
  }
  const Place place = aside_place(bucket, key);
  fs::create_directories(place.file.parent_path(), failed);
  if (::rename(draft.path().c_str(), place.file.c_str()) != 0)
    return of_errno("cannot put the object in place");
  return place;
}

Expected<Object> Store::publish(const std::string& bucket, const std::string& key, Draft& draft,
                                const Attributes& attributes, const Refuse& refuse) {
  const std::unique_lock lock(mutex_);
  auto& aside = aside_keys(bucket);
  if (refuse) {
    const auto there = find_locked(bucket, key, false);
    const auto etag = there ? std::optional(there->attributes->etag) : std::nullopt;
    if (const auto why = refuse(etag)) return tl::unexpected(*why);
  }
  struct stat status {};
  if (::fstat(draft.descriptor(), &status) != 0) return of_errno("cannot look at the object");
  const Identity identity = identity_of(status);
  const auto place = install(bucket, key, draft);
  if (!place) return tl::unexpected(place.error());
  if (!write_record(place->record, {key, identity, attributes}))
    return of_errno("cannot record the object");
  if (place->aside)
    aside.insert(key);
  else
    aside.erase(key);
  auto kept = std::make_shared<const Attributes>(attributes);
  know(bucket + '/' + key, identity, kept);
  return Object{key, identity, std::move(kept)};
}

Expected<void> Store::remove(const std::string& bucket, const std::string& key,
                             const Refuse& refuse) {
  const std::unique_lock lock(mutex_);
  (void)aside_keys(bucket);
  const auto there = find_locked(bucket, key, false);
  if (const auto why = refuse(there ? std::optional(there->attributes->etag) : std::nullopt))
    return tl::unexpected(*why);
  std::error_code ignored;
  const auto names = api::path_of(key);
  struct stat status {};
  const int file = names ? open_below(folder_ / bucket, *names) : -1;
  const bool plain = file >= 0 && ::fstat(file, &status) == 0 && S_ISREG(status.st_mode);
  if (file >= 0) ::close(file);
  const Place place = plain ? plain_place(bucket, key) : aside_place(bucket, key);
  if (!plain && aside_keys(bucket).erase(key) == 0) return {};
  if (::unlink(place.file.c_str()) != 0 && errno != ENOENT) return of_errno("cannot remove it");
  fs::remove(place.record, ignored);
  if (!plain) return {};
  // Folders that hold nothing any more are no objects.
  for (fs::path above = place.file.parent_path(); above != folder_ / bucket;
       above = above.parent_path())
    if (::rmdir(above.c_str()) != 0) break;
  return {};
}

}  // namespace spotter::emulator::s3

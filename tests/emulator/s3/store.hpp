// Buckets and objects as files: DIRECTORY/BUCKET/KEY, so that a user can drop files there and look
// at what was uploaded. Everything else that S3 keeps lies in DIRECTORY/.spotter. Thread-safe.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <shared_mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "tests/emulator/s3/attributes.hpp"
#include "tests/emulator/s3/tree.hpp"

namespace spotter::emulator::s3 {

namespace fs = std::filesystem;
using world::Expected;

struct Bucket {
  std::string name;
  std::string region;
  world::WallTime created{};
  bool anonymous = false;       // everybody may read it
  bool requester_pays = false;  // who reads it has to say that he pays
};

struct Object {
  std::string key;
  Identity identity;
  std::shared_ptr<const Attributes> attributes;
  std::shared_ptr<const int> descriptor = nullptr;  // where it was asked for
};

// A file that is being written; goes when it is not published.
class Draft {
 public:
  Draft(fs::path path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {}
  Draft(const Draft&) = delete;
  Draft& operator=(const Draft&) = delete;
  ~Draft();

  bool append(std::string_view bytes);  // false: errno says why
  bool append_file(int descriptor, std::uint64_t offset, std::uint64_t size);
  const fs::path& path() const { return path_; }
  int descriptor() const { return descriptor_; }

 private:
  fs::path path_;
  int descriptor_;
};

class Store {
 public:
  // Makes the folder where there is none. `region`: of buckets that somebody made with mkdir.
  Store(fs::path folder, std::string region);

  std::vector<Bucket> buckets();
  Expected<Bucket> bucket(const std::string& name);       // or NoSuchBucket
  Expected<void> make_bucket(const Bucket& bucket);       // BucketAlreadyOwnedByYou
  Expected<void> remove_bucket(const std::string& name);  // BucketNotEmpty
  bool clear();                                           // no bucket; false: some file stayed
  Expected<void> change(const std::string& name, const std::function<void(Bucket&)>& how);

  // NoSuchKey where there is none. With its descriptor when `open`.
  Expected<Object> find(const std::string& bucket, const std::string& key, bool open);
  // The object of a key that was just listed; nothing when it has gone since.
  std::optional<Object> look(const std::string& bucket, const std::string& key);
  std::unique_ptr<api::Keys> keys(const std::string& bucket);

  std::shared_ptr<Draft> draft();  // null: errno says why
  // Puts the draft where the key's object is, in one step for every reader. `refuse` sees the ETag
  // of what is there, under the same lock.
  using Refuse = std::function<std::optional<world::ApiError>(const std::optional<std::string>&)>;
  Expected<Object> publish(const std::string& bucket, const std::string& key, Draft& draft,
                           const Attributes& attributes, const Refuse& refuse);
  // A key that is not there is removed, too. `refuse` as publish() has it.
  Expected<void> remove(const std::string& bucket, const std::string& key, const Refuse& refuse);

  // The folder for the bucket's uploads in parts, beside its objects.
  fs::path uploads_folder(const std::string& bucket) const;

 private:
  struct Place {
    fs::path file;
    fs::path record;
    bool aside = false;
  };
  Place plain_place(const std::string& bucket, const std::string& key) const;
  Place aside_place(const std::string& bucket, const std::string& key) const;
  std::set<std::string>& aside_keys(const std::string& bucket);  // with mutex_ held
  Expected<Object> find_locked(const std::string& bucket, const std::string& key, bool open);
  std::shared_ptr<const Attributes> read_attributes(const std::string& name,
                                                    const Identity& identity, const Place& place,
                                                    int descriptor, const struct stat& status);
  std::shared_ptr<const Attributes> known_attributes(const std::string& name,
                                                     const Identity& identity);
  void know(const std::string& name, const Identity& identity,
            std::shared_ptr<const Attributes> attributes);
  Expected<void> record_bucket(const Bucket& bucket);
  std::optional<Bucket> recorded_bucket(const std::string& name);
  Expected<Place> install(const std::string& bucket, const std::string& key, Draft& draft);

  fs::path folder_;
  fs::path hidden_;  // .spotter
  std::string region_;
  Directories directories_;
  std::shared_mutex mutex_;  // of what readers must see change in one step
  std::map<std::string, std::set<std::string>> aside_;  // keys that no file can have, by bucket
  std::mutex cache_mutex_;                              // of the next two
  std::map<std::string, Bucket> known_buckets_;         // as recorded
  std::unordered_map<std::string, std::pair<Identity, std::shared_ptr<const Attributes>>> cache_;
};

}  // namespace spotter::emulator::s3

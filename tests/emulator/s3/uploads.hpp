// Uploads in parts that are under way: a folder each, beside its bucket's objects; they survive a
// restart. Thread-safe.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "tests/emulator/s3/store.hpp"
#include "tests/world/s3/multipart.hpp"

namespace spotter::emulator::s3 {

struct MultipartUpload {
  std::string id;
  std::string key;
  world::WallTime initiated{};
  Attributes attributes;  // of the object that it will be
  api::UploadChecksum checksum = {};
};

class Uploads {
 public:
  explicit Uploads(Store& store) : store_(store) {}

  Expected<std::string> create(const std::string& bucket, MultipartUpload upload);  // its id
  Expected<MultipartUpload> find(const std::string& bucket, const std::string& key,
                                 const std::string& id);        // NoSuchUpload
  std::vector<MultipartUpload> all(const std::string& bucket);  // by key, then by time
  // Replaces the part of this number, if there is one.
  Expected<void> put(const std::string& bucket, const std::string& id, int number, Draft& draft,
                     const Attributes& attributes);
  std::map<int, api::PartRow> parts(const std::string& bucket, const std::string& id);
  std::shared_ptr<Draft> joined(const std::string& bucket, const std::string& id,
                                const api::Completion& completion);  // null: errno says why
  void remove(const std::string& bucket, const std::string& id);

 private:
  fs::path folder(const std::string& bucket, const std::string& id) const {
    return store_.uploads_folder(bucket) / id;
  }
  std::optional<MultipartUpload> read(const std::string& bucket, const std::string& id) const;

  Store& store_;
  std::mutex mutex_;  // of a part's file and its record
};

}  // namespace spotter::emulator::s3

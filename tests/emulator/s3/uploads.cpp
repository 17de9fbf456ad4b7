#include "tests/emulator/s3/uploads.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <random>

namespace spotter::emulator::s3 {
namespace {

constexpr const char* description = "upload.json";

// An id is ours only if it is of this form: it becomes the name of a folder.
bool is_id(const std::string& id) {
  return id.size() == 64 && id.find_first_not_of("0123456789abcdef") == std::string::npos;
}

std::string new_id() {
  std::random_device chance;
  std::string raw;
  for (int i = 0; i < 8; ++i) {
    const std::uint32_t word = chance();
    raw.append(reinterpret_cast<const char*>(&word), sizeof word);
  }
  return api::hexadecimal(raw);
}

tl::unexpected<world::ApiError> no_such_upload() {
  return world::refusal("NoSuchUpload",
                        "The specified upload does not exist. The upload ID may be invalid, or the "
                        "upload may have been aborted or completed.",
                        404);
}

}  // namespace

// The record's identity holds the time; a wished-for checksum is one without a value.
Expected<std::string> Uploads::create(const std::string& bucket, MultipartUpload upload) {
  const std::string id = new_id();
  if (upload.checksum.algorithm) upload.attributes.checksums[*upload.checksum.algorithm] = "";
  upload.attributes.composite = !upload.checksum.full_object;
  Recorded record{upload.key, {}, upload.attributes};
  record.identity.modified = std::chrono::nanoseconds(upload.initiated.time_since_epoch()).count();
  if (!write_record(folder(bucket, id) / description, record))
    return world::refusal("InternalError", "The upload cannot be recorded.", 500);
  return id;
}

std::optional<MultipartUpload> Uploads::read(const std::string& bucket,
                                             const std::string& id) const {
  auto record = read_record(folder(bucket, id) / description);
  if (!record) return std::nullopt;
  MultipartUpload upload{id, record->key, modified_of(record->identity), record->attributes};
  if (!upload.attributes.checksums.empty())
    upload.checksum.algorithm = upload.attributes.checksums.begin()->first;
  upload.checksum.full_object = !upload.attributes.composite;
  upload.attributes.checksums.clear();
  upload.attributes.composite = false;
  return upload;
}

Expected<MultipartUpload> Uploads::find(const std::string& bucket, const std::string& key,
                                        const std::string& id) {
  auto upload = is_id(id) ? read(bucket, id) : std::nullopt;
  if (!upload || upload->key != key) return no_such_upload();
  return *upload;
}

std::vector<MultipartUpload> Uploads::all(const std::string& bucket) {
  std::vector<MultipartUpload> result;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(store_.uploads_folder(bucket), none))
    if (auto upload = read(bucket, entry.path().filename().string()))
      result.push_back(std::move(*upload));
  std::sort(result.begin(), result.end(), [](const auto& one, const auto& other) {
    return std::tie(one.key, one.initiated, one.id) <
           std::tie(other.key, other.initiated, other.id);
  });
  return result;
}

Expected<void> Uploads::put(const std::string& bucket, const std::string& id, int number,
                            Draft& draft, const Attributes& attributes) {
  const std::lock_guard lock(mutex_);
  const fs::path file = folder(bucket, id) / std::to_string(number);
  struct stat status {};
  ::fstat(draft.descriptor(), &status);
  if (!fs::exists(folder(bucket, id) / description)) return no_such_upload();
  if (::rename(draft.path().c_str(), file.c_str()) != 0 ||
      !write_record(file.string() + ".json", {"", identity_of(status), attributes}))
    return world::refusal("InternalError",
                          "The part cannot be kept: " + std::string(std::strerror(errno)), 500);
  return {};
}

std::map<int, api::PartRow> Uploads::parts(const std::string& bucket, const std::string& id) {
  const std::lock_guard lock(mutex_);
  std::map<int, api::PartRow> result;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(folder(bucket, id), none)) {
    if (entry.path().extension() != ".json") continue;
    const std::string name = entry.path().stem().string();
    int number = 0;
    std::from_chars(name.data(), name.data() + name.size(), number);
    const auto record = number > 0 ? read_record(entry.path()) : std::nullopt;
    if (!record) continue;
    result[number] = {number, record->identity.size, record->attributes.etag,
                      modified_of(record->identity), record->attributes.checksums};
  }
  return result;
}

std::shared_ptr<Draft> Uploads::joined(const std::string& bucket, const std::string& id,
                                       const api::Completion& completion) {
  auto draft = store_.draft();
  for (std::size_t i = 0; draft && i < completion.parts.size(); ++i) {
    const fs::path path = folder(bucket, id) / std::to_string(completion.parts[i]);
    const int part = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    const bool good = part >= 0 && draft->append_file(part, 0, completion.sizes[i]);
    if (part >= 0) ::close(part);
    if (!good) return nullptr;
  }
  return draft;
}

void Uploads::remove(const std::string& bucket, const std::string& id) {
  const std::lock_guard lock(mutex_);
  std::error_code ignored;
  fs::remove_all(folder(bucket, id), ignored);
}

}  // namespace spotter::emulator::s3

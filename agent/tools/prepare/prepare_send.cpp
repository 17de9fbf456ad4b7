// Uploads a local folder to S3, for an instance to fetch.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <map>

#include "agent/aws/s3/upload.hpp"
#include "agent/aws/settings/settings.hpp"
#include "agent/data/fifo.hpp"
#include "agent/tools/prepare/prepare.hpp"

namespace spotter::command {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t at_once = 16;  // files

// A mapped file.
class Mapped {
 public:
  Mapped() = default;
  Mapped(const Mapped&) = delete;
  Mapped& operator=(const Mapped&) = delete;
  ~Mapped() {
    if (at_ != nullptr) ::munmap(at_, size_);
  }
  // False: see errno.
  bool open(const fs::path& path) {
    const data::Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    struct stat status {};
    if (!file || ::fstat(file.get(), &status) != 0) return false;
    size_ = static_cast<std::size_t>(status.st_size);
    if (size_ == 0) return true;
    void* const at = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file.get(), 0);
    if (at == MAP_FAILED) return false;
    at_ = at;
    return true;
  }
  std::string_view bytes() const { return {static_cast<const char*>(at_), size_}; }

 private:
  void* at_ = nullptr;
  std::size_t size_ = 0;
};

bool is_there(const std::map<std::string, wire::ListedObject>& objects, const std::string& key,
              const fs::path& path) {
  const auto found = objects.find(key);
  struct stat status {};
  if (found == objects.end() || ::stat(path.c_str(), &status) != 0) return false;
  // Also the change of its status: a file copied with its old date has a new one there.
  const auto last = std::max(status.st_mtim.tv_sec, status.st_ctim.tv_sec);
  const auto written = std::chrono::sys_seconds(std::chrono::seconds(last));
  return found->second.size == static_cast<std::uint64_t>(status.st_size) &&
         found->second.modified > written;
}

}  // namespace

Result<std::size_t> send(const config::Source& source, const std::atomic<bool>& stop) {
  const auto files = files_of(source.from);
  if (!files) return tl::unexpected(files.error());
  if (files->empty()) return failure("there is nothing in " + source.from);
  s3::Client client({.environment = act::Environment::of_this_process()});
  const auto listed = s3::list(client, *source.via);
  if (!listed) return failure(listed.error().text());
  std::map<std::string, wire::ListedObject> objects;
  for (const wire::ListedObject& it : *listed) objects.emplace(it.key, it);
  LocalFiles missing;
  for (const auto& [name, path] : *files)
    if (!is_there(objects, source.via->key + name, path)) missing.emplace_back(name, path);
  for (std::size_t begin = 0; begin < missing.size(); begin += at_once) {
    std::deque<Mapped> mapped;
    std::vector<s3::NewObject> some;
    for (std::size_t i = begin; i < std::min(begin + at_once, missing.size()); ++i) {
      const auto& [name, path] = missing[i];
      if (!mapped.emplace_back().open(path))
        return failure(path.string() + ": " + std::strerror(errno));
      some.push_back({{source.via->bucket, source.via->key + name}, mapped.back().bytes(), {}});
    }
    const auto sent = s3::upload(client, some, &stop);
    if (!sent) return failure(stop ? "stopped: run it again" : sent.error().text());
  }
  return missing.size();
}

}  // namespace spotter::command

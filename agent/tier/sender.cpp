#include "agent/tier/sender.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <future>

#include "agent/aws/s3/upload.hpp"
#include "agent/tier/manifest.hpp"
#include "trainer/library/manifest.hpp"

namespace spotter::tier {
namespace {

// What is mapped and under way at once; a larger file goes alone.
constexpr std::size_t most_mapped_files = 256;
constexpr std::uint64_t most_mapped_bytes = std::uint64_t{1} << 30;

tl::unexpected<Error> wrong(const guard::Part& part, const std::string& what) {
  return failure(part.name + " in it " + what);
}

// A file as it was recorded, mapped.
class Recorded {
 public:
  static Result<Recorded> open(const guard::Beneath& folder, const guard::Part& part) {
    Recorded recorded(part);
    auto file = folder.file(part.name, O_RDONLY);
    if (!file) return wrong(part, "cannot be read: " + file.error().message());
    recorded.file_ = *std::move(file);
    if (!recorded.is_unchanged()) return wrong(part, "is not what was recorded");
    if (part.bytes > 0) {
      void* data = ::mmap(nullptr, part.bytes, PROT_READ, MAP_SHARED, recorded.file_.get(), 0);
      if (data == MAP_FAILED)
        return wrong(part, std::string("cannot be mapped: ") + std::strerror(errno));
      recorded.data_ = data;
    }
    return recorded;
  }
  Recorded(Recorded&& other) noexcept
      : part_(other.part_),
        file_(std::move(other.file_)),
        data_(std::exchange(other.data_, nullptr)) {}
  Recorded& operator=(Recorded&&) = delete;
  ~Recorded() {
    if (data_ != nullptr) ::munmap(data_, part_.bytes);
  }

  std::string_view bytes() const {
    return data_ == nullptr ? std::string_view()
                            : std::string_view(static_cast<char*>(data_), part_.bytes);
  }
  const guard::Part& part() const { return part_; }
  bool has_its_sum() const { return checkpoint::sum_of(bytes()) == part_.sum; }
  bool is_unchanged() const {
    struct stat status {};
    return ::fstat(file_.get(), &status) == 0 &&
           guard::found(part_.name, status) ==
               guard::Found{part_.name, part_.bytes, part_.mtime_ns};
  }

 private:
  explicit Recorded(const guard::Part& part) : part_(part) {}

  const guard::Part& part_;
  guard::Descriptor file_;
  void* data_ = nullptr;
};

}  // namespace

Result<void> Sender::send(const std::vector<guard::Part>& parts) {
  for (std::size_t first = 0; first < parts.size();) {
    std::size_t count = 0;
    std::uint64_t bytes = 0;
    do {
      bytes += parts[first + count].bytes;
      ++count;
    } while (first + count < parts.size() && count < most_mapped_files &&
             bytes + parts[first + count].bytes <= most_mapped_bytes);
    if (auto sent = send_together(std::span(parts).subspan(first, count)); !sent) return sent;
    first += count;
  }
  return {};
}

Result<void> Sender::send_together(std::span<const guard::Part> parts) {
  std::vector<Recorded> files;
  std::vector<s3::NewObject> objects;
  files.reserve(parts.size());
  for (const guard::Part& part : parts) {
    auto file = Recorded::open(folder_, part);
    if (!file) return tl::unexpected(file.error());
    wire::S3Location location{to_.bucket, to_.key + part.name};
    if (location.key.size() > key_limit) return wrong(part, "has too long a name for S3");
    files.push_back(*std::move(file));
    objects.push_back({std::move(location), files.back().bytes(), {}});
  }
  // What is not as it was recorded is found while it is sent: nothing names it before the manifest,
  // which is written after all.
  std::atomic<bool> stop = false;
  auto compared = std::async([&]() -> const Recorded* {
    for (const Recorded& file : files) {
      if (stop) return nullptr;
      if (file.has_its_sum()) continue;
      stop = true;
      return &file;
    }
    return nullptr;
  });
  const auto sent = s3::upload(client_, objects, &stop);
  if (!sent) stop = true;
  if (const Recorded* other = compared.get())
    return wrong(other->part(), "is not what was recorded");
  if (!sent) return failure(sent.error().text());
  for (const Recorded& file : files)
    if (!file.is_unchanged()) return wrong(file.part(), "was changed while it was copied");
  return {};
}

}  // namespace spotter::tier

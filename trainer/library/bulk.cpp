#include "trainer/library/bulk.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>

#include "trainer/library/files.hpp"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace spotter::checkpoint {
namespace {

namespace fs = std::filesystem;

// Like std::memcpy, but bypassing the caches if the processor can (x86-64): a quarter faster, as
// the target's old content is not read first, and training finds its own data in the caches
// afterwards.
#if defined(__SSE2__)
void stream_copy(char* target, const char* source, std::size_t bytes) {
  constexpr std::size_t kLine = 64;
  const auto rest = static_cast<std::size_t>(-reinterpret_cast<std::uintptr_t>(target)) % kLine;
  const std::size_t head = bytes < 4 * kLine ? bytes : rest;
  std::memcpy(target, source, head);
  std::size_t at = head;
  for (; at + kLine <= bytes; at += kLine) {
    const auto* from = reinterpret_cast<const __m128i*>(source + at);
    auto* to = reinterpret_cast<__m128i*>(target + at);
    const __m128i a = _mm_loadu_si128(from);
    const __m128i b = _mm_loadu_si128(from + 1);
    const __m128i c = _mm_loadu_si128(from + 2);
    const __m128i d = _mm_loadu_si128(from + 3);
    _mm_stream_si128(to, a);
    _mm_stream_si128(to + 1, b);
    _mm_stream_si128(to + 2, c);
    _mm_stream_si128(to + 3, d);
  }
  _mm_sfence();  // another thread will read the target
  std::memcpy(target + at, source + at, bytes - at);
}

#else

void stream_copy(char* target, const char* source, std::size_t bytes) {
  std::memcpy(target, source, bytes);
}

#endif

constexpr std::size_t kPiece = std::size_t{8} << 20;   // bytes a request; larger ones are no faster
constexpr std::size_t kThreads = 4;                    // requests in flight, for gp3 and NVMe
constexpr std::size_t kDirect = std::size_t{1} << 20;  // bytes; for less the page cache is as fast
constexpr std::size_t kHugePage = std::size_t{2} << 20;
constexpr std::size_t kCopyPiece = std::size_t{16} << 20;  // bytes that a thread copies at a time

// Threads that read: the sums, and what is copied from the page cache, gain by more processors.
std::size_t readers() {
  return std::clamp<std::size_t>(std::thread::hardware_concurrency(), kThreads, 16);
}

std::size_t rounded_up(std::size_t bytes, std::size_t to) { return (bytes + to - 1) / to * to; }

// The sum of a file whose pieces arrive in any order, from any thread, each soon after it was used.
class OrderedSum {
 public:
  explicit OrderedSum(std::string_view bytes)
      : bytes_(bytes), there_((bytes.size() + kPiece - 1) / kPiece) {}

  void have(std::size_t piece) {
    std::unique_lock lock(mutex_);
    there_[piece] = true;
    if (busy_) return;  // the thread that is adding takes this one, too
    busy_ = true;
    while (next_ < there_.size() && there_[next_]) {
      const auto bytes = bytes_.substr(next_ * kPiece, kPiece);
      lock.unlock();
      sum_.add(bytes);
      lock.lock();
      ++next_;
    }
    busy_ = false;
  }
  std::string hex() const { return sum_.hex(); }

 private:
  std::string_view bytes_;
  std::mutex mutex_;
  std::vector<bool> there_;
  std::size_t next_ = 0;
  bool busy_ = false;
  Sum sum_;
};

struct Target {
  Target(const Part& given, const fs::path& directory)
      : part(given), shown(directory / given.name), sum(given.bytes) {}
  const Part& part;
  fs::path shown;
  Descriptor file;
  Descriptor direct;  // empty: uses the page cache
  OrderedSum sum;
};

struct Piece {
  std::size_t file;
  std::size_t index;
};

template <class Sizes>
std::vector<Piece> pieces_of(std::size_t files, const Sizes& size) {
  std::vector<Piece> pieces;
  for (std::size_t file = 0; file < files; ++file) {
    for (std::size_t at = 0; at < size(file); at += kPiece) pieces.push_back({file, at / kPiece});
  }
  return pieces;
}

Result<void> create(int directory, Target& target) {
  constexpr int kFlags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW;
  const char* name = target.part.name.c_str();
  target.file = Descriptor(::openat(directory, name, kFlags, 0644));
  if (!target.file) return system_failure("cannot create", target.shown);
  const auto size = target.part.bytes.size();
  const bool aligned = reinterpret_cast<std::uintptr_t>(target.part.bytes.data()) % kAlignment == 0;
  if (size < kDirect || !aligned) return {};
  // Allocates first: a full disk fails before anything is written, and writes that do not extend
  // the file run in parallel.
  if (::fallocate(target.file.get(), 0, 0, static_cast<off_t>(size)) != 0 && errno == ENOSPC)
    return system_failure("cannot write", target.shown);
  target.direct = Descriptor(::openat(directory, name, O_WRONLY | O_DIRECT | O_CLOEXEC));
  return {};
}

Result<void> write_piece(Target& target, std::size_t index) {
  const std::size_t at = index * kPiece;
  const std::string_view bytes = target.part.bytes.substr(at, kPiece);
  // Only whole blocks can bypass the page cache; the rest goes through it.
  std::size_t done = 0;
  if (target.direct) {
    const auto whole = bytes.substr(0, bytes.size() / kAlignment * kAlignment);
    const ssize_t written =
        ::pwrite(target.direct.get(), whole.data(), whole.size(), static_cast<off_t>(at));
    // Short, or EINVAL of a disk with larger blocks: the other way reports errors better.
    if (written > 0) done = static_cast<std::size_t>(written);
  }
  TRY(write_at(target.file.get(), bytes.substr(done), at + done, target.shown));
  if (done < bytes.size()) {  // starts writing before fsync; only a hint, so the result is ignored
    ::sync_file_range(target.file.get(), static_cast<off_t>(at), static_cast<off_t>(bytes.size()),
                      SYNC_FILE_RANGE_WRITE);
  }
  target.sum.have(index);
  return {};
}

Result<void> finish(Target& target) {
  if (::fsync(target.file.get()) != 0)
    return write_failure("cannot make durable", target.shown, target.file.get());
  target.direct = Descriptor();
  // close() reports late write errors of network file systems.
  if (::close(target.file.release()) != 0) return system_failure("cannot close", target.shown);
  return {};
}

struct Origin {
  Origin(const PartEntry& given, const fs::path& directory)
      : entry(given), path(directory / given.name) {}
  const PartEntry& entry;
  fs::path path;
  Buffer memory;
  bool mapped = false;  // the file's own pages
  Descriptor file;
  Descriptor direct;
  std::unique_ptr<OrderedSum> sum;
};

Result<void> open_part(Origin& origin) {
  // Non-blocking, so that a FIFO in place of a part cannot block.
  constexpr int kFlags = O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
  origin.file = Descriptor(::open(origin.path.c_str(), kFlags));
  if (!origin.file) return system_failure("cannot open", origin.path);
  struct stat status {};
  if (::fstat(origin.file.get(), &status) != 0) return system_failure("cannot read", origin.path);
  const auto size = static_cast<std::uint64_t>(status.st_size);
  errno = 0;
  if (!S_ISREG(status.st_mode) || size != origin.entry.bytes) {
    return failure(origin.entry.name + " has " + std::to_string(size) + " bytes, not " +
                   std::to_string(origin.entry.bytes));
  }
  struct statfs system {};
  const bool whole = static_cast<std::uint64_t>(status.st_blocks) * 512 >= size;  // has no hole
  const bool in_memory = size > 0 && whole && ::fstatfs(origin.file.get(), &system) == 0 &&
                         system.f_type == TMPFS_MAGIC;
  origin.mapped = in_memory && origin.memory.map(origin.file.get(), size);
  if (!origin.mapped && !origin.memory.reserve(rounded_up(size, kAlignment))) {
    errno = ENOMEM;
    return system_failure("cannot read", origin.path);
  }
  origin.sum = std::make_unique<OrderedSum>(std::string_view(origin.memory.data(), size));
  if (size >= kDirect) origin.direct = Descriptor(::open(origin.path.c_str(), kFlags | O_DIRECT));
  return {};
}

Result<void> read_piece(Origin& origin, std::size_t index) {
  const std::size_t begin = index * kPiece;
  const std::size_t end = std::min<std::size_t>(begin + kPiece, origin.entry.bytes);
  std::size_t at = origin.mapped ? end : begin;
  bool cached = true;  // what the page cache has is taken from there
  int file = origin.direct ? origin.direct.get() : origin.file.get();
  while (at < end) {
    const bool past = !cached && file != origin.file.get();
    const iovec into{origin.memory.data() + at, past ? rounded_up(end - at, kAlignment) : end - at};
    const ssize_t got = ::preadv2(cached ? origin.file.get() : file, &into, 1,
                                  static_cast<off_t>(at), cached ? RWF_NOWAIT : 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (cached || past)) {
      if (!cached) file = origin.file.get();
      cached = false;
      continue;
    }
    if (got < 0) return system_failure("cannot read", origin.path);
    errno = 0;
    if (got == 0) return failure(origin.entry.name + " became shorter while it was read");
    at += static_cast<std::size_t>(got);
    if (at % kAlignment != 0) file = origin.file.get();  // cut short: the rest is unaligned
  }
  origin.sum->have(index);
  return {};
}

// Calls a function of cuda.h in the driver, if the process has loaded that. A thread without a
// context, as our own, gets this one. True: it succeeded.
template <class... Arguments>
bool call_driver(void* context, const char* name, Arguments... arguments) {
  void* driver = ::dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  if (driver == nullptr) return false;
  const auto function = [&](const char* wanted) { return ::dlsym(driver, wanted); };
  if (context != nullptr && device_context() == nullptr) {
    const auto use = reinterpret_cast<int (*)(void*)>(function("cuCtxSetCurrent"));
    if (use != nullptr) use(context);
  }
  const auto call = reinterpret_cast<int (*)(Arguments...)>(function(name));
  const bool done = call != nullptr && call(arguments...) == 0;
  ::dlclose(driver);
  return done;
}

}  // namespace

Result<void> run_parallel(std::size_t count, std::size_t threads,
                          const std::function<Result<void>(std::size_t)>& task) {
  std::atomic<std::size_t> next{0};
  std::atomic<bool> failed{false};
  std::mutex mutex;
  std::optional<Error> first;
  const auto work = [&] {
    for (std::size_t i = next++; i < count && !failed; i = next++) {
      auto done = task(i);
      if (done) continue;
      const std::scoped_lock lock(mutex);
      if (!first) first = std::move(done.error());
      failed = true;
    }
  };
  {
    std::vector<std::jthread> others;
    try {
      while (others.size() + 1 < std::min(threads, count)) others.emplace_back(work);
    } catch (const std::system_error&) {  // out of threads: fewer will do
    }
    work();
  }
  if (first) return tl::unexpected(*first);
  return {};
}

void* device_context() {
  void* context = nullptr;
  return call_driver(nullptr, "cuCtxGetCurrent", &context) ? context : nullptr;
}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(capacity_, other.capacity_);
  std::swap(context_, other.context_);
  return *this;
}

Buffer::~Buffer() {
  if (context_ != nullptr) call_driver(context_, "cuMemHostUnregister", static_cast<void*>(data_));
  if (data_ != nullptr) ::munmap(data_, capacity_);
}

bool Buffer::map(int file, std::size_t bytes) {
  *this = Buffer();  // first, so that there are never both
  const int flags = file < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_PRIVATE;
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, file, 0);
  if (memory == MAP_FAILED) return false;
  data_ = static_cast<char*>(memory);
  capacity_ = bytes;
  return true;
}

bool Buffer::reserve(std::size_t bytes) {
  if (bytes <= capacity_) return true;
  if (!map(-1, rounded_up(bytes, bytes < kHugePage ? kAlignment : kHugePage))) return false;
  ::madvise(data_, capacity_, MADV_HUGEPAGE);  // only a hint
  return true;
}

void Buffer::touch() {
  const auto touched =
      run_parallel((capacity_ + kPiece - 1) / kPiece, kThreads, [&](std::size_t piece) {
        const std::size_t end = std::min(capacity_, (piece + 1) * kPiece);
        for (std::size_t at = piece * kPiece; at < end; at += kAlignment)
          const_cast<volatile char*>(data_)[at] = 0;
        return Result<void>();
      });
  (void)touched;  // it cannot fail
}

void Buffer::pin(void* context) {
  constexpr unsigned kOfAllContexts = 1;  // CU_MEMHOSTREGISTER_PORTABLE
  if (context == nullptr || context_ != nullptr || data_ == nullptr) return;
  if (!call_driver(context, "cuMemHostRegister_v2", static_cast<void*>(data_), capacity_,
                   kOfAllContexts))
    return;
  context_ = context;
  ::madvise(data_, capacity_, MADV_DONTFORK);  // a fork copies what is pinned: to each data loader
}

Result<std::vector<PartEntry>> write_parts(int directory, const fs::path& shown,
                                           std::span<const Part> parts) {
  std::vector<std::unique_ptr<Target>> targets;
  targets.reserve(parts.size());
  for (const auto& part : parts) targets.push_back(std::make_unique<Target>(part, shown));
  TRY(run_parallel(targets.size(), 1,
                   [&](std::size_t i) { return create(directory, *targets[i]); }));
  const auto pieces =
      pieces_of(targets.size(), [&](std::size_t i) { return parts[i].bytes.size(); });
  TRY(run_parallel(pieces.size(), kThreads, [&](std::size_t i) {
    return write_piece(*targets[pieces[i].file], pieces[i].index);
  }));
  TRY(run_parallel(targets.size(), kThreads, [&](std::size_t i) { return finish(*targets[i]); }));
  std::vector<PartEntry> entries;
  entries.reserve(targets.size());
  for (const auto& target : targets) {
    entries.push_back({target->part.name, target->part.bytes.size(), target->sum.hex()});
  }
  return entries;
}

Result<std::vector<LoadedPart>> read_parts(const fs::path& directory,
                                           std::span<const PartEntry> parts, int* code) {
  std::vector<std::unique_ptr<Origin>> origins;
  origins.reserve(parts.size());
  for (const auto& part : parts) origins.push_back(std::make_unique<Origin>(part, directory));
  std::mutex mutex;
  const auto noting = [&](Result<void> result) {
    const int seen = errno;
    const std::scoped_lock lock(mutex);
    if (!result && code != nullptr) *code = seen;
    return result;
  };
  TRY(run_parallel(origins.size(), 1,
                   [&](std::size_t i) { return noting(open_part(*origins[i])); }));
  const auto pieces =
      pieces_of(origins.size(), [&](std::size_t i) { return std::size_t{parts[i].bytes}; });
  TRY(run_parallel(pieces.size(), readers(), [&](std::size_t i) {
    return noting(read_piece(*origins[pieces[i].file], pieces[i].index));
  }));
  std::vector<LoadedPart> loaded;
  for (auto& origin : origins) {
    if (origin->sum->hex() != origin->entry.xxh3_128) {
      if (code != nullptr) *code = 0;
      return failure(origin->entry.name + " has a wrong sum");
    }
    const std::string_view bytes(origin->memory.data(), origin->entry.bytes);
    loaded.push_back({origin->entry.name, bytes, std::move(origin->memory)});
  }
  return loaded;
}

void copy_pieces(std::span<const CopyPiece> pieces) {
  struct Slice {
    const CopyPiece* piece;
    std::size_t at;
  };
  std::vector<Slice> slices;
  std::size_t total = 0;
  for (const auto& piece : pieces) {
    total += piece.source.size();
    for (std::size_t at = 0; at < piece.source.size(); at += kCopyPiece) {
      slices.push_back({&piece, at});
    }
  }
  const std::size_t useful = std::min<std::size_t>(kThreads, std::thread::hardware_concurrency());
  const auto copied =
      run_parallel(slices.size(), total > 4 * kCopyPiece ? useful : 1, [&](std::size_t i) {
        const auto [piece, at] = slices[i];
        const auto bytes = piece->source.substr(at, kCopyPiece);
        stream_copy(piece->target + at, bytes.data(), bytes.size());
        return Result<void>();
      });
  (void)copied;  // copying cannot fail
}

}  // namespace spotter::checkpoint

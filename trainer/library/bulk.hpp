// Large files at the disk's speed: pieces of 8 MiB from several threads, bypassing the page cache
// (O_DIRECT) where memory is aligned and the file system allows it. Computes the sum meanwhile.
// Trainers use saver.hpp instead.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <span>

#include "agent/base/result.hpp"
#include "trainer/library/manifest.hpp"

namespace spotter::checkpoint {

// The alignment of addresses, offsets and sizes for O_DIRECT: a page, as no disk has larger blocks.
inline constexpr std::size_t kAlignment = 4096;

// Runs task(0) .. task(count - 1), begun in this order, on `threads` threads at most. After a
// failure no further task is begun; the first failure is returned. Needs no pool: starting a thread
// takes some 50 microseconds, a checkpoint at least milliseconds.
Result<void> run_parallel(std::size_t count, std::size_t threads,
                          const std::function<Result<void>(std::size_t)>& task);

// CUDA's context of this thread, by the driver that the process has loaded; null: there is none.
void* device_context();

// Memory from mmap, aligned to a page and made of huge pages if the kernel agrees. Grows, never
// shrinks.
class Buffer {
 public:
  Buffer() = default;
  Buffer(Buffer&& other) noexcept { *this = std::move(other); }
  Buffer& operator=(Buffer&& other) noexcept;
  ~Buffer();

  // Makes it at least `bytes` large; may lose its content. False: out of memory.
  bool reserve(std::size_t bytes);
  // The first `bytes` of a file, or nothing's for -1, in the place of what was there; what is
  // changed there is not changed in the file. False: out of memory.
  bool map(int file, std::size_t bytes);
  // Touches each page once, so that a later copy into it runs at the speed of memory.
  void touch();
  // Lets the GPUs of that context write it by themselves. Does nothing where the driver refuses, as
  // for a limit on locked memory: that is slower, and as right.
  void pin(void* context);
  char* data() const { return data_; }
  std::size_t capacity() const { return capacity_; }

 private:
  char* data_ = nullptr;
  std::size_t capacity_ = 0;
  void* context_ = nullptr;  // null: it is not pinned
};

struct Part {
  std::string name;
  std::string_view bytes;
};

// Creates one file for each part in the opened `directory`, writes and fsyncs them. Returns the
// parts' entries, in the same order. After a failure the files may hold anything: the caller
// removes the whole directory, and never fsyncs them again (see write_new_file()).
Result<std::vector<PartEntry>> write_parts(int directory, const std::filesystem::path& shown,
                                           std::span<const Part> parts);

// One part, read and verified.
struct LoadedPart {
  std::string name;
  std::string_view bytes;  // within `memory`
  Buffer memory;
};

// Reads the parts of one checkpoint and checks each one's size and sum: from the page cache what is
// there, the rest past it. Files in memory, of tmpfs, are mapped, not copied. On failure `code`,
// if given, becomes errno, or 0 when a file was read but differs from the manifest.
Result<std::vector<LoadedPart>> read_parts(const std::filesystem::path& directory,
                                           std::span<const PartEntry> parts, int* code = nullptr);

struct CopyPiece {
  char* target;
  std::string_view source;
};

// Copies with as many threads as speed it up, four at most.
void copy_pieces(std::span<const CopyPiece> pieces);

}  // namespace spotter::checkpoint

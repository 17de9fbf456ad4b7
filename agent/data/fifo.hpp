// A named pipe that one epoch of a channel is read from.
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>

#include "agent/base/result.hpp"

namespace spotter::data {

// Owns a file descriptor.
class Descriptor {
 public:
  explicit Descriptor(int number = -1) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(other.release()) {}
  Descriptor& operator=(Descriptor&& other) noexcept;
  ~Descriptor() { reset(); }
  int get() const { return number_; }
  int release();
  void reset();
  explicit operator bool() const { return number_ >= 0; }

 private:
  int number_;
};

class Fifo {
 public:
  // Made anew, whatever lay there, with the write end open: a reader's open() does not wait.
  static Result<Fifo> make(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return path_; }
  int descriptor() const { return write_end_.get(); }
  bool has_reader() const;
  // Bytes that lie in the pipe.
  std::size_t unread() const;

  enum class Sent { Some, Full, NoReader };
  // As much as goes in now. `splice`: the pages themselves, which must not change until they were
  // read (unread()); else their bytes. `bytes` says how many.
  Sent send(std::span<const iovec> pieces, bool splice, std::size_t& bytes);

  // No more is written: with the last write end closed, a reader comes to the end. Until all is
  // read, unread() still tells.
  void end();
  void remove_name() const;

 private:
  explicit Fifo(std::filesystem::path path) : path_(std::move(path)) {}

  std::filesystem::path path_;
  Descriptor write_end_;
  Descriptor read_end_;  // after end(), to look only
};

}  // namespace spotter::data

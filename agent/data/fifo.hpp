// The named pipe from which one epoch of a channel is read.
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>

#include "agent/base/result.hpp"
#include "agent/io/files.hpp"

namespace spotter::data {

using io::Descriptor;

class Fifo {
 public:
  // Replaces whatever is at `path`. The write end is open, so a reader's open() does not wait.
  static Result<Fifo> make(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return path_; }
  int descriptor() const { return write_end_.get(); }
  bool has_reader() const;
  // Bytes that lie in the pipe.
  std::size_t unread() const;

  enum class Sent { Some, Full, NoReader };
  // Sends as much as fits now. `splice`: moves the pages themselves, which must not change until
  // they were read (unread()); else copies. `bytes` becomes the number sent.
  Sent send(std::span<const iovec> pieces, bool splice, std::size_t& bytes);

  // Closes the write end: once all others are closed, too, a reader gets the end of file. Until all
  // is read, unread() still works.
  void end();
  void remove_name() const;

 private:
  explicit Fifo(std::filesystem::path path) : path_(std::move(path)) {}

  std::filesystem::path path_;
  Descriptor write_end_;
  Descriptor read_end_;  // after end(), for unread() only
};

}  // namespace spotter::data

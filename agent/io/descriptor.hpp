// Owns a file descriptor, and closes it. libspotter, which links nothing of io, has a copy of it
// (trainer/library/files.hpp).
#pragma once

#include <unistd.h>

#include <utility>

namespace spotter::io {

class Descriptor {
 public:
  explicit Descriptor(int number = -1) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(other.release()) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~Descriptor() { close(); }
  int get() const { return number_; }
  explicit operator bool() const { return number_ >= 0; }
  int release() { return std::exchange(number_, -1); }
  // What close() said, where that matters: 0, or -1 and errno. Without one: 0.
  int close() { return number_ >= 0 ? ::close(release()) : 0; }

 private:
  int number_;
};

}  // namespace spotter::io

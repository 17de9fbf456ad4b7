// Shared by the tests: a temporary directory, and a disk that is a sparse file behind a loop
// device.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "agent/host/verb.hpp"
#include "agent/io/files.hpp"

namespace spotter::act::host {

inline constexpr const char* volume_id = "vol-0123456789abcdef0";

// Removed with all that is in it.
class Directory : public testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;
  std::filesystem::path write(const std::filesystem::path& relative, std::string_view text) const;
  std::filesystem::path directory_;
};

// The kernel detaches it by itself after the last close (LO_FLAGS_AUTOCLEAR): also when we are
// killed.
class Loop {
 public:
  Loop(const std::filesystem::path& file, std::uint64_t bytes);
  explicit operator bool() const { return static_cast<bool>(device_); }
  std::filesystem::path path() const { return path_; }
  std::string why() const { return why_; }
  // At an offset; negative: before the end.
  void write(std::int64_t offset, std::string_view bytes) const;

 private:
  io::Descriptor device_;
  std::filesystem::path path_;
  std::uint64_t bytes_;
  std::string why_;
};

class Disk : public Directory {
 protected:
  static constexpr std::uint64_t disk_bytes = 512ULL << 20;  // mkfs.xfs wants 300 MiB at least
  void SetUp() override;
  void TearDown() override;  // unmounts, then removes
  std::filesystem::path mount_point() const { return directory_ / "mnt"; }
  std::unique_ptr<Loop> loop_;
};

// Runs a program as we are; fails the test when it fails. Answers its output.
std::string must_run(std::vector<std::string> argv);

template <class T>
std::string kind_of(const Result<T>& outcome) {
  return outcome ? "ok" : outcome.error().kind;
}
template <class T>
std::string words_of(const Result<T>& outcome) {
  return outcome ? "ok" : outcome.error().message;
}

}  // namespace spotter::act::host

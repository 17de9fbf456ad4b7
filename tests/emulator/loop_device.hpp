// A file as a block device: https://man7.org/linux/man-pages/man4/loop.4.html. Needs root.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "agent/base/result.hpp"

namespace spotter::emulator {

// Holds the device open. The device is marked for automatic clearing: it frees itself when the last
// who has it open (this object, or a mount of it) is gone, however this process ends.
class LoopDevice {
 public:
  static Result<LoopDevice> attach(const std::filesystem::path& file);
  LoopDevice(LoopDevice&& other) noexcept;
  LoopDevice& operator=(LoopDevice&& other) noexcept;
  ~LoopDevice();

  std::string path() const { return "/dev/loop" + std::to_string(number_); }
  int number() const { return number_; }
  // "7:0", as in the third field of /proc/PID/mountinfo.
  std::string device_number() const { return "7:" + std::to_string(number_); }
  // Another name for it: a block device at this path, whose folder exists.
  Result<void> make_node(const std::filesystem::path& path) const;
  // The size of the file, which has grown.
  Result<void> take_size() const;
  // Puts everything written through the device into the file.
  Result<void> sync() const;

 private:
  LoopDevice(int descriptor, int number) : descriptor_(descriptor), number_(number) {}
  int descriptor_ = -1;
  int number_ = -1;
};

// The file behind a loop device; nothing when the device is free.
std::optional<std::string> backing_file(int number);

// Frees every loop device whose file lies below `directory`: what an earlier run left behind.
// Returns those that are still in use.
std::string clear_loop_devices(const std::filesystem::path& directory);

}  // namespace spotter::emulator

#include "tests/emulator/loop_device.hpp"

#include <fcntl.h>
#include <linux/fs.h>
#include <linux/loop.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <utility>

namespace spotter::emulator {
namespace {

constexpr int attempts_for_a_free_device = 64;
// As of a disk of EBS, 128 KiB: a loop device reads more ahead, and whoever reads from one end to
// the other would have many requests in flight.
constexpr unsigned long sectors_ahead = 256;

std::string reason() { return std::strerror(errno); }

// In a container /dev may lack the nodes that LOOP_CTL_GET_FREE makes on the host.
int open_node(int number) {
  const std::string path = "/dev/loop" + std::to_string(number);
  int descriptor = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (descriptor < 0 && errno == ENOENT) {
    ::mknod(path.c_str(), S_IFBLK | 0660, ::makedev(7, static_cast<unsigned>(number)));
    descriptor = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  }
  return descriptor;
}

bool configure(int device, int file, const std::string& name, bool direct) {
  loop_config config{};
  config.fd = static_cast<__u32>(file);
  config.info.lo_flags = LO_FLAGS_AUTOCLEAR | (direct ? LO_FLAGS_DIRECT_IO : 0);
  std::strncpy(reinterpret_cast<char*>(config.info.lo_file_name), name.c_str(), LO_NAME_SIZE - 1);
  return ::ioctl(device, LOOP_CONFIGURE, &config) == 0;
}

}  // namespace

Result<LoopDevice> LoopDevice::attach(const std::filesystem::path& file) {
  const int control = ::open("/dev/loop-control", O_RDWR | O_CLOEXEC);
  if (control < 0) return failure("/dev/loop-control: " + reason());
  const int backing = ::open(file.c_str(), O_RDWR | O_CLOEXEC);
  if (backing < 0) {
    const auto why = failure(file.string() + ": " + reason());
    ::close(control);
    return why;
  }
  Result<LoopDevice> result = failure("no free loop device");
  // Between asking for a free number and configuring it, somebody else may take it: EBUSY, again.
  for (int i = 0; i < attempts_for_a_free_device && !result; ++i) {
    const int number = ::ioctl(control, LOOP_CTL_GET_FREE);
    const int device = number < 0 ? -1 : open_node(number);
    if (device < 0) {
      result = failure("no free loop device: " + reason());
      break;
    }
    if (configure(device, backing, file.string(), true) ||
        (errno == EINVAL && configure(device, backing, file.string(), false))) {
      ::ioctl(device, BLKRASET, sectors_ahead);
      result = LoopDevice(device, number);
      break;
    }
    const int why = errno;
    ::close(device);
    result = failure("/dev/loop" + std::to_string(number) + ": " + std::strerror(why));
    if (why != EBUSY) break;
  }
  ::close(backing);
  ::close(control);
  return result;
}

LoopDevice::LoopDevice(LoopDevice&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)), number_(other.number_) {}

LoopDevice& LoopDevice::operator=(LoopDevice&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(number_, other.number_);
  return *this;
}

LoopDevice::~LoopDevice() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

Result<void> LoopDevice::sync() const {
  if (::fsync(descriptor_) != 0) return failure(path() + ": fsync: " + reason());
  return {};
}

Result<void> LoopDevice::take_size() const {
  if (::ioctl(descriptor_, LOOP_SET_CAPACITY, 0) != 0) return failure(path() + ": " + reason());
  return {};
}

Result<void> LoopDevice::make_node(const std::filesystem::path& path) const {
  ::unlink(path.c_str());
  if (::mknod(path.c_str(), S_IFBLK | 0660, ::makedev(7, static_cast<unsigned>(number_))) != 0)
    return failure(path.string() + ": " + reason());
  return {};
}

std::optional<std::string> backing_file(int number) {
  std::ifstream file("/sys/block/loop" + std::to_string(number) + "/loop/backing_file");
  std::string name;
  if (!std::getline(file, name)) return std::nullopt;
  return name;
}

std::string clear_loop_devices(const std::filesystem::path& directory) {
  std::string in_use;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/sys/block", ignored)) {
    const std::string name = entry.path().filename();
    if (!name.starts_with("loop")) continue;
    const int number = std::atoi(name.c_str() + 4);
    const auto file = backing_file(number);
    if (!file || !file->starts_with(directory.string() + "/")) continue;
    const int device = ::open(("/dev/" + name).c_str(), O_RDWR | O_CLOEXEC);
    if (device >= 0) {
      ::ioctl(device, LOOP_CLR_FD);
      ::close(device);
    }
    if (backing_file(number)) in_use += " /dev/" + name;
  }
  return in_use;
}

}  // namespace spotter::emulator

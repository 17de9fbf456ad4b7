#include "disk.hpp"

#include <fcntl.h>
#include <linux/loop.h>
#include <sys/ioctl.h>
#include <sys/mount.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>

namespace spotter::act::host {

namespace fs = std::filesystem;

void Directory::SetUp() {
  std::string name = (fs::temp_directory_path() / "spotter-host-XXXXXX").string();
  ASSERT_NE(::mkdtemp(name.data()), nullptr);
  directory_ = fs::canonical(name);
  fs::permissions(directory_, fs::perms(0755));  // the trainer's user goes through it
}

void Directory::TearDown() {
  std::error_code error;
  fs::remove_all(directory_, error);
  EXPECT_FALSE(error) << error.message();
}

fs::path Directory::write(const fs::path& relative, std::string_view text) const {
  const auto path = directory_ / relative;
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << text;
  return path;
}

Loop::Loop(const fs::path& file, std::uint64_t bytes) : bytes_(bytes) {
  const io::Descriptor backing(::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  const io::Descriptor control(::open("/dev/loop-control", O_RDWR | O_CLOEXEC));
  if (!backing || ::ftruncate(backing.get(), static_cast<off_t>(bytes)) != 0 || !control) {
    why_ = "no loop devices here: " + std::string(std::strerror(errno));
    return;
  }
  for (int attempt = 0; attempt < 20 && !device_; ++attempt) {  // others take free ones, too
    const int number = ::ioctl(control.get(), LOOP_CTL_GET_FREE);
    path_ = "/dev/loop" + std::to_string(number);
    io::Descriptor device(::open(path_.c_str(), O_RDWR | O_CLOEXEC));
    loop_config config{};
    config.fd = static_cast<__u32>(backing.get());
    config.info.lo_flags = LO_FLAGS_AUTOCLEAR;
    if (number >= 0 && device && ::ioctl(device.get(), LOOP_CONFIGURE, &config) == 0) {
      device_ = std::move(device);
    } else {
      why_ = "no free loop device: " + std::string(std::strerror(errno));
      ::usleep(20'000);
    }
  }
}

void Loop::write(std::int64_t offset, std::string_view bytes) const {
  if (offset < 0) offset += static_cast<std::int64_t>(bytes_);
  ASSERT_EQ(::pwrite(device_.get(), bytes.data(), bytes.size(), offset),
            static_cast<ssize_t>(bytes.size()));
  ASSERT_EQ(::fsync(device_.get()), 0);
}

void Disk::SetUp() {
  Directory::SetUp();
  if (::geteuid() != 0) GTEST_SKIP() << "loop devices and mounts need root";
  loop_ = std::make_unique<Loop>(directory_ / "disk.img", disk_bytes);
  if (!*loop_) GTEST_SKIP() << loop_->why();
}

void Disk::TearDown() {
  while (::umount2(mount_point().c_str(), UMOUNT_NOFOLLOW | MNT_DETACH) == 0) {
  }
  loop_.reset();
  Directory::TearDown();
}

std::string must_run(std::vector<std::string> argv) {
  const ToolRequest request{.argv = argv,
                            .environment = {{"LC_ALL", "C"},
                                            {"HOME", "/nonexistent"},
                                            {"GIT_CONFIG_GLOBAL", "/dev/null"},
                                            {"GIT_CONFIG_NOSYSTEM", "1"},
                                            {"GIT_AUTHOR_NAME", "a"},
                                            {"GIT_AUTHOR_EMAIL", "a@b"},
                                            {"GIT_COMMITTER_NAME", "a"},
                                            {"GIT_COMMITTER_EMAIL", "a@b"}}};
  const auto result = run_tool(request, argv[0]);
  if (!result) {
    ADD_FAILURE() << words_of(result);
    return {};
  }
  EXPECT_EQ(result->status, 0) << argv[0] << ": " << last_words(*result);
  return result->output;
}

}  // namespace spotter::act::host

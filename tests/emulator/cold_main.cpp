// spotter-emulator-cold DIR TIME-SCALE: the file system of cold_files.hpp, on DIR/cold. Writes a
// line when it is mounted; ends on SIGTERM, which it also gets when the emulator ends.
#define FUSE_USE_VERSION 312
#include <fcntl.h>
#include <fuse_lowlevel.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "tests/emulator/cold_files.hpp"

namespace spotter::emulator {
namespace {

namespace fs = std::filesystem;

constexpr unsigned most_at_once = 256;  // the agent has 64 in flight, a kernel's read-ahead more

struct File {
  fs::path path;
  ColdVolume volume;
  world::ColdReads reads;
  std::mutex mutex;
};

// Inode 1 is the folder. A file is known from its first look-up on, warm blocks and all.
class Files {
 public:
  Files(fs::path directory, double scale) : directory_(std::move(directory)), scale_(scale) {}

  fuse_ino_t find(const std::string& name) {
    const std::scoped_lock lock(mutex_);
    if (const auto known = numbers_.find(name); known != numbers_.end()) return known->second;
    std::ifstream stream(directory_ / "cold-volumes" / name);
    const std::string text{std::istreambuf_iterator<char>(stream), {}};
    const auto volume = parse_cold_volume(text);
    if (!volume || name.find('/') != std::string::npos) return 0;
    files_.push_back(std::make_unique<File>(directory_ / "volumes" / name, *volume,
                                            world::ColdReads(volume->is, {})));
    return numbers_[name] = FUSE_ROOT_ID + files_.size();
  }
  File& at(fuse_ino_t number) {
    const std::scoped_lock lock(mutex_);
    return *files_.at(number - FUSE_ROOT_ID - 1);
  }
  // Returns when EBS would have the bytes.
  void wait(File& file, off_t offset, std::size_t bytes) const {
    const double now = (boot_seconds() - file.volume.made) * scale_;
    double over = 0;
    {
      const std::scoped_lock lock(file.mutex);
      over = file.reads.done(static_cast<std::uint64_t>(offset), bytes, now);
    }
    std::this_thread::sleep_for(std::chrono::duration<double>((over - now) / scale_));
  }

 private:
  fs::path directory_;
  double scale_;
  std::mutex mutex_;
  std::map<std::string, fuse_ino_t> numbers_;
  std::vector<std::unique_ptr<File>> files_;
};

Files& files_of(fuse_req_t request) { return *static_cast<Files*>(::fuse_req_userdata(request)); }
int descriptor(const fuse_file_info* info) { return static_cast<int>(info->fh); }

// 0, or errno.
int attributes(fuse_req_t request, fuse_ino_t number, struct stat& status) {
  status = {};
  status.st_ino = number;
  if (number == FUSE_ROOT_ID) {
    status.st_mode = S_IFDIR | 0700;
    status.st_nlink = 2;
    return 0;
  }
  if (::stat(files_of(request).at(number).path.c_str(), &status) != 0) return errno;
  status.st_ino = number;
  return 0;
}

void look_up(fuse_req_t request, fuse_ino_t, const char* name) {
  fuse_entry_param entry{};
  entry.ino = files_of(request).find(name);
  const int error = entry.ino == 0 ? ENOENT : attributes(request, entry.ino, entry.attr);
  error == 0 ? ::fuse_reply_entry(request, &entry) : ::fuse_reply_err(request, error);
}

void get_attributes(fuse_req_t request, fuse_ino_t number, fuse_file_info*) {
  struct stat status {};
  const int error = attributes(request, number, status);
  error == 0 ? ::fuse_reply_attr(request, &status, 0) : ::fuse_reply_err(request, error);
}

void open_file(fuse_req_t request, fuse_ino_t number, fuse_file_info* info) {
  const int file = ::open(files_of(request).at(number).path.c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) return void(::fuse_reply_err(request, errno));
  info->fh = static_cast<std::uint64_t>(file);
  info->direct_io = 1;
  ::fuse_reply_open(request, info);
}

void read_file(fuse_req_t request, fuse_ino_t number, std::size_t size, off_t offset,
               fuse_file_info* info) {
  files_of(request).wait(files_of(request).at(number), offset, size);
  std::vector<char> bytes(size);
  const ssize_t got = ::pread(descriptor(info), bytes.data(), size, offset);
  if (got < 0) return void(::fuse_reply_err(request, errno));
  ::fuse_reply_buf(request, bytes.data(), static_cast<std::size_t>(got));
}

void write_file(fuse_req_t request, fuse_ino_t number, const char* bytes, std::size_t size,
                off_t offset, fuse_file_info* info) {
  files_of(request).wait(files_of(request).at(number), offset, size);
  const ssize_t put = ::pwrite(descriptor(info), bytes, size, offset);
  if (put < 0) return void(::fuse_reply_err(request, errno));
  ::fuse_reply_write(request, static_cast<std::size_t>(put));
}

void sync_file(fuse_req_t request, fuse_ino_t, int, fuse_file_info* info) {
  ::fuse_reply_err(request, ::fdatasync(descriptor(info)) == 0 ? 0 : errno);
}

// The kernel discards blocks of a loop device: they are a hole again.
void make_hole(fuse_req_t request, fuse_ino_t, int mode, off_t offset, off_t length,
               fuse_file_info* info) {
  ::fuse_reply_err(request, ::fallocate(descriptor(info), mode, offset, length) == 0 ? 0 : errno);
}

void close_file(fuse_req_t request, fuse_ino_t, fuse_file_info* info) {
  ::fuse_reply_err(request, ::close(descriptor(info)) == 0 ? 0 : errno);
}

void begin(void*, fuse_conn_info* connection) {
  connection->max_background = most_at_once;
  connection->congestion_threshold = most_at_once;
}

int run(int count, char** words) {
  if (count != 3) return 2;
  Files files(words[1], std::atof(words[2]));
  fuse_lowlevel_ops operations{};
  operations.init = begin;
  operations.lookup = look_up;
  operations.getattr = get_attributes;
  operations.open = open_file;
  operations.read = read_file;
  operations.write = write_file;
  operations.fsync = sync_file;
  operations.fallocate = make_hole;
  operations.release = close_file;
  char* arguments[] = {words[0], nullptr};
  fuse_args given = FUSE_ARGS_INIT(1, arguments);
  fuse_session* session = ::fuse_session_new(&given, &operations, sizeof operations, &files);
  if (session == nullptr) return 1;
  ::fuse_set_signal_handlers(session);
  if (::fuse_session_mount(session, (fs::path(words[1]) / "cold").c_str()) != 0) return 1;
  if (std::puts("mounted") < 0 || std::fflush(stdout) != 0) return 1;
  fuse_loop_config* threads = ::fuse_loop_cfg_create();
  ::fuse_loop_cfg_set_max_threads(threads, most_at_once);
  ::fuse_loop_cfg_set_idle_threads(threads, most_at_once);
  const int status = ::fuse_session_loop_mt(session, threads);
  ::fuse_loop_cfg_destroy(threads);
  ::fuse_session_unmount(session);
  return status == 0 || status == SIGTERM ? 0 : 1;
}

}  // namespace
}  // namespace spotter::emulator

int main(int count, char** words) { return spotter::emulator::run(count, words); }

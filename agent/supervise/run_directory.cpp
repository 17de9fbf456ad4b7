#include "agent/supervise/run_directory.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <fstream>
#include <limits>
#include <tuple>

#include "agent/base/record.hpp"
#include "agent/io/kernel.hpp"

namespace spotter::supervise {
namespace {

Result<void> system_failure(const std::string& what) {
  return failure(what + ": " + std::strerror(errno));
}

constexpr mode_t others = 077;
constexpr mode_t others_writing = 022;

bool is_for_others(std::string_view name) {
  constexpr std::string_view names[] = {"status.json",     notice_name, "pace",
                                        "parameters.json", "channels",  "values"};
  return std::ranges::find(names, name) != std::end(names);
}

// Only we can change the directory, so a name cannot become another file in between.
void take_from_others(int directory) {
  DIR* entries = fdopendir(dup(directory));
  if (entries == nullptr) return;
  while (const dirent* entry = readdir(entries)) {
    struct stat status {};
    const bool plain = fstatat(directory, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
                       S_ISREG(status.st_mode) && status.st_uid == geteuid();
    if (plain && (status.st_mode & others) != 0 && !is_for_others(entry->d_name))
      std::ignore = fchmodat(directory, entry->d_name, status.st_mode & 07777 & ~others, 0);
  }
  closedir(entries);
}

struct flock whole_file(int type) {
  struct flock lock {};
  lock.l_type = static_cast<short>(type);
  lock.l_whence = SEEK_SET;
  return lock;
}

}  // namespace

Result<void> RunDirectory::make_ours() const {
  const Descriptor here(open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat status {};
  if (!here || fstat(here.get(), &status) != 0) return system_failure("cannot open " + path_);
  if (status.st_uid != geteuid() && status.st_uid != 0)
    return failure(path_ + " belongs to " + io::user_in_words(status.st_uid) +
                   ", who could replace every file in it: have it removed, or set SPOTTER_RUN to a "
                   "folder that is yours");
  if ((status.st_mode & others_writing) != 0 &&
      fchmod(here.get(), status.st_mode & 07777 & ~others_writing) != 0)
    return system_failure(path_ + " is writable for others, and its mode cannot be changed");
  take_from_others(here.get());
  return {};
}

Result<void> RunDirectory::write(std::string_view name, std::string_view content) const {
  return behind("cannot write " + file(name), io::atomic_write(file(name), content, private_mode));
}

Result<void> RunDirectory::replace(std::string_view name, std::string_view content) const {
  return behind("cannot write " + file(name), io::replace_file(file(name), content, private_mode));
}

Result<void> RunDirectory::remove(std::string_view name) const {
  if (unlink(file(name).c_str()) == 0 || errno == ENOENT) return {};
  return system_failure("cannot remove " + file(name));
}

Result<Descriptor> RunDirectory::open_file(std::string_view name, int flags) const {
  const std::string path = file(name);
  const int number =
      open(path.c_str(), flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, private_mode);
  Descriptor opened(number);
  struct stat status {};
  if (!opened || fstat(opened.get(), &status) != 0)
    return failure("cannot open " + path + ": " + std::strerror(errno));
  if (!S_ISREG(status.st_mode) || status.st_nlink != 1 || status.st_uid != geteuid())
    return failure(path + " is not a plain file of our own; remove it");
  if ((status.st_mode & others) != 0 && fchmod(opened.get(), status.st_mode & 07777 & ~others) != 0)
    return failure("cannot keep others from " + path + ": " + std::strerror(errno));
  return opened;
}

Result<Descriptor> RunDirectory::take_agents_lock() const {
  auto lock = open_file("agent.lock", O_RDWR | O_CREAT);
  if (lock && flock(lock->get(), LOCK_EX | LOCK_NB) != 0) lock->close();
  return lock;
}

Result<Descriptor> RunDirectory::open_lock() const {
  return open_file("supervisor.lock", O_RDWR | O_CREAT);
}

bool try_lock(const Descriptor& lock) {
  auto want = whole_file(F_WRLCK);
  return fcntl(lock.get(), F_OFD_SETLK, &want) == 0;
}

bool is_locked(const Descriptor& lock) {
  auto want = whole_file(F_WRLCK);
  return fcntl(lock.get(), F_OFD_GETLK, &want) == 0 && want.l_type != F_UNLCK;
}

sockaddr_un socket_address(const Descriptor& directory, std::string_view name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/%.*s", directory.get(),
                static_cast<int>(name.size()), name.data());
  return address;
}

bool send_datagram(const std::string& path, const std::string& text,
                   std::chrono::milliseconds patience) {
  const auto slash = path.rfind('/');
  if (slash == std::string::npos) return true;  // no agent is to hear it
  const Descriptor here(open(path.substr(0, slash).c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  const Descriptor sender(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const timeval limit{.tv_sec = patience.count() / 1000, .tv_usec = patience.count() % 1000 * 1000};
  setsockopt(sender.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  const auto address = socket_address(here, path.substr(slash + 1));
  return sendto(sender.get(), text.data(), text.size(), MSG_NOSIGNAL,
                reinterpret_cast<const sockaddr*>(&address), sizeof address) >= 0;
}

std::int64_t boottime_milliseconds() { return io::boot_time().count(); }

std::string boot_id() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  file >> id;
  return id;
}

void ReportedValues::add(const ReportedValue& value) {
  // A clock that was set back begins another series.
  if (!all_.empty() && value.time < all_.back().time) all_.clear();
  if (all_.size() > 1 && value.time - all_[all_.size() - 2].time < spacing) {
    all_.back() = value;
    return;
  }
  all_.push_back(value);
  if (all_.size() > most) all_.pop_front();
}

std::string to_json(const ReportedValues& values) {
  auto json = nlohmann::json::array();
  for (const ReportedValue& each : values.all()) json.push_back({each.time, each.step, each.value});
  return json.dump() + "\n";
}

Result<ReportedValues> parse_values(std::string_view text) {
  const auto json = wire::parsed_json(text);
  ReportedValues values;
  if (!json.is_array()) return failure("no list of values");
  for (const auto& each : json) {
    if (!each.is_array() || each.size() != 3 || !each[0].is_number() ||
        !each[1].is_number_unsigned() || !each[2].is_number())
      return failure("no value: " + each.dump());
    values.add({each[0].get<double>(), each[1].get<std::uint64_t>(), each[2].get<double>()});
  }
  return values;
}

Result<void> write_lease(const std::string& path, std::int64_t until_boottime_ms) {
  const auto slash = path.rfind('/');
  const RunDirectory directory(path.substr(0, slash));
  return directory.write(path.substr(slash + 1), std::to_string(until_boottime_ms) + "\n");
}

Lease::Lease(std::string path)
    : path_(std::move(path)),
      timer_(path_.empty() ? -1 : timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK)) {
  renew();
}

std::int64_t Lease::until() const {
  if (path_.empty()) return std::numeric_limits<std::int64_t>::max();
  std::int64_t until = 0;
  std::ifstream(path_) >> until;
  return until;
}

void Lease::renew() {
  if (!timer_) return;
  std::uint64_t ignored = 0;
  [[maybe_unused]] const ssize_t got = read(timer_.get(), &ignored, sizeof ignored);
  const std::int64_t next = std::max(until(), boottime_milliseconds() + 1000);
  itimerspec when{};
  when.it_value.tv_sec = next / 1000;
  when.it_value.tv_nsec = next % 1000 * 1'000'000;
  timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &when, nullptr);
}

Result<Record> parse_record(std::string_view json) {
  auto record = TRY(wire::parse_document<Record>(json, record_version, "what the supervisor says"));
  if (record.supervisor_pid <= 0 || record.trainer_pid <= 0)
    return failure("its pid and trainer_pid must be positive");
  return record;
}

Result<Ended> parse_ended(std::string_view text) {
  constexpr std::string_view what = "how the trainer ended";
  wire::Json json = TRY(wire::parse_json_object(text));
  if (auto newer = wire::newer(json, "version", record_version, what))
    return tl::unexpected(std::move(*newer));
  // An older version's: a pid alone names no process for long.
  if (const auto all = json.find("left_over"); all != json.end() && all->is_array())
    std::erase_if(all->get_ref<wire::Json::array_t&>(),
                  [](const wire::Json& each) { return !each.is_object(); });
  Ended end;
  if (const auto wrong = wire::read_record(json, end); !wrong.empty())
    return failure(std::string(what) + wrong);
  const int status = end.exit_code.value_or(end.signal.value_or(-1));
  if (end.exit_code.has_value() == end.signal.has_value() || status < 0 || status > 255)
    return failure("it must have exactly one of exit_code and signal, a number from 0 to 255");
  end.trainer_pid = std::max(end.trainer_pid, 0);
  std::erase_if(end.left_over,
                [](const LeftOver& each) { return each.pid <= 0 || each.start_ticks == 0; });
  return end;
}

std::string last_lines(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  auto start = text.size();
  constexpr int lines = 20;
  for (int line = 0; line < lines; ++line) {
    if (start == 0) return text;
    const auto found = text.rfind('\n', start - 1);
    if (found == text.npos) return text;
    start = found;
  }
  return text.substr(start + 1);
}

}  // namespace spotter::supervise

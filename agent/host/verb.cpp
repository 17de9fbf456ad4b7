#include "agent/host/verb.hpp"

#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <pwd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <sstream>

#include "agent/io/child.hpp"
#include "agent/io/files.hpp"
#include "agent/supervise/account.hpp"

namespace spotter::act::host {
namespace {

struct Known {
  int error_number;
  const char* kind;
  const char* advice;  // nullptr: who_may()
};

constexpr Known known[] = {
    {ENOSPC, "storage-full", "; make room on it or enlarge the volume"},
    {EDQUOT, "storage-full", "; the quota is used up"},
    {EROFS, "device-read-only", "; the file system is read-only, see the kernel's log for why"},
    {EIO, "input-output", "; the disk does not answer properly, see the kernel's log"},
    {EPERM, "not-permitted", nullptr},
    {EACCES, "not-permitted", nullptr},
    {ENXIO, "device-absent", "; the disk is gone"},
    {ENODEV, "device-absent", "; the disk is gone"},
};

const char* who_may() {
  if (::getuid() != 0) return "; this needs root";
  if (::geteuid() != 0) return "; the trainer's user may not (on a share, the server decides that)";
  return "; not even root may (a share's server may know no root)";
}

}  // namespace

tl::unexpected<Error> fail_errno(std::error_code code, const std::string& what,
                                 std::string_view otherwise) {
  const std::string text = what + ": " + code.message();
  for (const auto& entry : known) {
    if (code.value() != entry.error_number) continue;
    return fail(entry.kind, text + (entry.advice != nullptr ? entry.advice : who_may()));
  }
  return fail(otherwise, text);
}

tl::unexpected<Error> fail_errno(int error_number, const std::string& what,
                                 std::string_view otherwise) {
  return fail_errno(std::error_code(error_number, std::generic_category()), what, otherwise);
}

namespace {

// Going on with the wrong identity would be worse than any crash.
void must(int result) {
  if (result != 0) std::abort();
}

int living = 0;

}  // namespace

Result<User> find_user(const std::string& name) {
  std::vector<char> buffer(16384);
  struct passwd entry {};
  struct passwd* found = nullptr;
  const int error = ::getpwnam_r(name.c_str(), &entry, buffer.data(), buffer.size(), &found);
  if (found == nullptr) {
    if (error != 0)
      return fail_errno(error, "cannot look up the user '" + name + "'", "user-missing");
    return fail("user-missing", "there is no user '" + name +
                                    "' on this machine; create it in the image, or name another in "
                                    "trainer.user of job.yaml");
  }
  User user{name, entry.pw_uid, entry.pw_gid, entry.pw_dir, {}};
  if (::geteuid() != 0 && ::geteuid() != user.uid) {
    return fail("not-permitted",
                "only root can work as the user '" + name +
                    "'; run the agent as root, or name its own user in trainer.user");
  }
  user.groups = supervise::groups_of(name, user.gid);
  return user;
}

AsUser::AsUser(const User& user) {
  ++living;
  if (::geteuid() != 0 || user.uid == 0) return;
  const int count = ::getgroups(0, nullptr);
  groups_.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
  if (count > 0) must(::getgroups(count, groups_.data()) == count ? 0 : -1);
  must(::setgroups(user.groups.size(), user.groups.data()));
  must(::setegid(user.gid));
  must(::seteuid(user.uid));
  changed_ = true;
}

bool AsUser::active() { return living > 0; }

AsUser::~AsUser() {
  --living;
  if (!changed_) return;
  must(::seteuid(0));
  must(::setegid(0));
  must(::setgroups(groups_.size(), groups_.data()));
}

bool may_redirect(const User& user, const std::filesystem::path& path) {
  std::error_code error;
  // With the links' targets, as far as it exists.
  const auto whole = std::filesystem::weakly_canonical(path, error);
  if (error) return true;
  const AsUser as(user);
  for (const auto& way : {path.lexically_normal(), whole}) {
    std::filesystem::path above = "/";
    for (const auto& part : way.relative_path()) {
      struct stat folder {
      }, next{};
      const bool may_write = ::faccessat(AT_FDCWD, above.c_str(), W_OK, AT_EACCESS) == 0;
      if (::stat(above.c_str(), &folder) != 0) return may_write;
      above /= part;
      const bool is_there = ::lstat(above.c_str(), &next) == 0;
      // In a folder like /tmp only who owns one of the two may change what is there.
      const bool sticky = (folder.st_mode & S_ISVTX) != 0;
      const bool may_replace =
          !is_there || !sticky || next.st_uid == user.uid || folder.st_uid == user.uid;
      if (may_write && may_replace) return true;
      if (!is_there) break;
    }
  }
  return false;
}

namespace {

constexpr std::size_t output_limit = 1U << 20;

std::string search_path() {
  const char* path = std::getenv("PATH");
  const std::string system = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
  return path == nullptr ? system : std::string(path) + ":" + system;
}

std::string find_program(const std::string& name, const std::string& path) {
  if (name.find('/') != std::string::npos) return name;
  std::istringstream parts(path);
  for (std::string part; std::getline(parts, part, ':');) {
    const std::string candidate = part + "/" + name;
    if (!part.empty() && ::access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  return {};
}

struct ToolStart {
  std::string program;
  std::vector<std::string> environment;
  io::Descriptor null, out_read, out_write, err_read, err_write;
};

// After fork: only what is safe there. The status to end with: 126, it could not become the user;
// 127, no exec.
int execute_tool(const ToolRequest& request, const ToolStart& start, const io::Program& program,
                 pid_t parent) {
  if (request.user && ::geteuid() == 0) {
    const User& user = *request.user;
    if (::setgroups(user.groups.size(), user.groups.data()) != 0 || ::setgid(user.gid) != 0 ||
        ::setuid(user.uid) != 0) {
      return 126;
    }
  }
  if (request.own_session) ::setsid();
  if (!io::die_with(parent, SIGKILL)) return 126;  // after setuid, which clears it
  if (::dup2(start.null.get(), 0) < 0 || ::dup2(start.out_write.get(), 1) < 0 ||
      ::dup2(start.err_write.get(), 2) < 0) {
    return 126;
  }
  if (request.inherited_fd >= 0) ::fcntl(request.inherited_fd, F_SETFD, 0);
  program.execute();
  return 127;
}

bool make_pipe(io::Descriptor& read_end, io::Descriptor& write_end) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return false;
  read_end = io::Descriptor(ends[0]);
  write_end = io::Descriptor(ends[1]);
  return true;
}

// Reads what is there; closes the end at EOF.
void drain(io::Descriptor& end, std::string& text) {
  std::array<char, 16384> buffer;
  const auto n = ::read(end.get(), buffer.data(), buffer.size());
  if (n < 0 && errno == EINTR) return;
  if (n <= 0) {
    end.close();
    return;
  }
  const std::size_t room = output_limit - text.size();
  text.append(buffer.data(), std::min(room, static_cast<std::size_t>(n)));
}

void collect(ToolStart& start, ToolResult& result) {
  while (start.out_read || start.err_read) {
    std::array<pollfd, 2> polled{pollfd{start.out_read.get(), POLLIN, 0},
                                 pollfd{start.err_read.get(), POLLIN, 0}};
    if (::poll(polled.data(), polled.size(), -1) < 0 && errno != EINTR) return;
    if (polled[0].revents != 0) drain(start.out_read, result.output);
    if (polled[1].revents != 0) drain(start.err_read, result.errors);
  }
}

}  // namespace

Result<ToolResult> run_tool(const ToolRequest& request, const std::string& package) {
  ToolStart start;
  const std::string path = search_path();
  start.program = find_program(request.argv.at(0), path);
  if (start.program.empty()) {
    return fail("tool-missing", "the program '" + request.argv[0] +
                                    "' is not installed; install the package " + package +
                                    " in the image");
  }
  start.environment.push_back("PATH=" + path);
  for (const auto& [name, value] : request.environment) {
    start.environment.push_back(name + "=" + value);
  }
  start.null = io::Descriptor(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!start.null || !make_pipe(start.out_read, start.out_write) ||
      !make_pipe(start.err_read, start.err_write)) {
    return fail_errno(errno, "cannot start " + request.argv[0]);
  }
  const io::Program program(request.argv, start.environment, start.program);
  const pid_t parent = ::getpid();
  const pid_t pid = io::fork_child([&] { return execute_tool(request, start, program, parent); });
  if (pid < 0) return fail_errno(errno, "cannot start " + request.argv[0]);
  start.out_write.close();
  start.err_write.close();

  ToolResult result;
  collect(start, result);
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0) {
    if (errno != EINTR) return fail_errno(errno, "cannot wait for " + request.argv[0]);
  }
  result.status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  return result;
}

std::string last_words(const ToolResult& result) {
  constexpr std::size_t enough = 400;
  std::string words = result.errors.empty() ? result.output : result.errors;
  while (!words.empty() && (words.back() == '\n' || words.back() == ' ')) words.pop_back();
  if (words.size() > enough) words = "..." + words.substr(words.size() - enough);
  for (char& letter : words) {
    if (letter == '\n' || letter == '\r') letter = ' ';
  }
  return words.empty() ? "it said nothing, exit status " + std::to_string(result.status) : words;
}

}  // namespace spotter::act::host

#include "agent/host/verb.hpp"

#include <fcntl.h>
#include <grp.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cstdlib>

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

// Going on with the wrong identity would be worse than any crash.
void must(int result) {
  if (result != 0) std::abort();
}

int living = 0;

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

Result<void> make_directories(const fs::path& path, std::string_view otherwise) {
  return or_fail(io::make_directories(path, 0755), "cannot make " + path.string(), otherwise);
}

Result<io::SafeDirectory> open_directory(const fs::path& path) {
  return or_fail(io::SafeDirectory::open(path), "cannot open " + path.string());
}

Result<io::SafeDirectory> make_folder_at(const fs::path& path) {
  auto made = io::SafeDirectory::open(path.parent_path()).and_then([&](const auto& above) {
    return above.make_folder(path.filename(), 0755);
  });
  return or_fail(std::move(made), "cannot make " + path.string());
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

bool may_redirect(const User& user, const fs::path& path) {
  std::error_code error;
  // With the links' targets, as far as it exists.
  const auto whole = fs::weakly_canonical(path, error);
  if (error) return true;
  const AsUser as(user);
  for (const auto& way : {path.lexically_normal(), whole}) {
    fs::path above = "/";
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

Result<ToolResult> run_tool(const ToolRequest& request, const std::string& package) {
  auto result = io::run_tool(request);
  if (result) return *std::move(result);
  if (result.error() != std::errc::no_such_file_or_directory)
    return fail_errno(result.error(), "cannot start " + request.argv[0]);
  return fail("tool-missing", "the program '" + request.argv[0] +
                                  "' is not installed; install the package " + package +
                                  " in the image");
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

bool says(std::string_view words, std::initializer_list<const char*> phrases) {
  return std::ranges::any_of(phrases, [&](const char* it) { return words.find(it) != words.npos; });
}

std::vector<std::string> names_in(std::string_view text) {
  std::vector<std::string> names;
  for (std::size_t end = 0; (end = text.find('\0')) != text.npos; text.remove_prefix(end + 1))
    names.emplace_back(text.substr(0, end));
  return names;
}

bool is_pointer(const fs::path& file) {
  constexpr std::string_view begins = "version https://git-lfs.github.com/spec/";
  constexpr off_t most = 1024;
  const io::Descriptor opened(::open(file.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat status {};
  std::array<char, begins.size()> start{};
  return opened && ::fstat(opened.get(), &status) == 0 && S_ISREG(status.st_mode) &&
         status.st_size < most &&
         ::read(opened.get(), start.data(), start.size()) == static_cast<ssize_t>(start.size()) &&
         std::string_view(start.data(), start.size()) == begins;
}

}  // namespace spotter::act::host

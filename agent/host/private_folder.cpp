#include "agent/host/private_folder.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <string>
#include <system_error>

namespace spotter::act::host {
namespace {

namespace fs = std::filesystem;

constexpr const char* prefix = "spotter-private-";
constexpr uid_t first_user = 61184;
constexpr uid_t last_user = 65519;

fs::path temporary_folder() {
  const char* named = std::getenv("TMPDIR");
  return named != nullptr && *named == '/' ? named : "/var/tmp";
}

io::Descriptor open_folder(const fs::path& path) {
  return io::Descriptor(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

bool is_ours(const struct stat& folder) {
  if (::geteuid() != 0) return folder.st_uid == ::geteuid();
  return folder.st_uid >= first_user && folder.st_uid <= last_user;
}

void remove_tree(const fs::path& path) {
  std::error_code ignored;
  fs::remove_all(path, ignored);  // follows no link
}

// One that is being made is root's still.
void remove_left_over(const fs::path& place) {
  std::error_code error;
  for (fs::directory_iterator at(place, error), end; !error && at != end; at.increment(error)) {
    if (!at->path().filename().string().starts_with(prefix)) continue;
    const io::Descriptor folder = open_folder(at->path());
    struct stat status {};
    if (folder && ::fstat(folder.get(), &status) == 0 && is_ours(status) &&
        ::flock(folder.get(), LOCK_EX | LOCK_NB) == 0)
      remove_tree(at->path());
  }
}

}  // namespace

PrivateFolder::PrivateFolder(fs::path path, io::Descriptor lock, User user)
    : path_(std::move(path)), lock_(std::move(lock)), user_(std::move(user)) {}

PrivateFolder::PrivateFolder(PrivateFolder&& other) noexcept
    : path_(std::exchange(other.path_, {})),
      lock_(std::move(other.lock_)),
      user_(std::move(other.user_)) {}

PrivateFolder::~PrivateFolder() {
  if (!path_.empty()) remove_tree(path_);
}

Result<PrivateFolder> PrivateFolder::make() {
  const fs::path place = temporary_folder();
  remove_left_over(place);
  std::string path = (place / prefix).string() + "XXXXXX";
  if (::mkdtemp(path.data()) == nullptr)
    return fail_errno(errno, "cannot make a folder in " + place.string());
  const bool root = ::geteuid() == 0;
  const uid_t number =
      root ? first_user + static_cast<uid_t>(::getpid()) % (last_user - first_user + 1)
           : ::geteuid();
  const User user{"spotter-private", number, root ? number : ::getegid(), path, {}};
  PrivateFolder made(path, open_folder(path), user);
  if (!made.lock_ || ::flock(made.lock_.get(), LOCK_EX | LOCK_NB) != 0 ||
      (root && ::fchown(made.lock_.get(), user.uid, user.gid) != 0))
    return fail_errno(errno, "cannot make " + path + " private");
  return made;
}

Result<void> PrivateFolder::show() const {
  if (::fchmod(lock_.get(), 0755) != 0)
    return fail_errno(errno, "cannot open " + path_.string() + " to others");
  return {};
}

}  // namespace spotter::act::host

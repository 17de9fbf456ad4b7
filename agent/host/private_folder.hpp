// A folder of a user that nobody else is: for work with a secret, where no process and no file of
// the trainer's user is in reach.
#pragma once

#include <filesystem>

#include "agent/host/user.hpp"
#include "agent/io/descriptor.hpp"

namespace spotter::act::host {

// Exists as long as this does; what a killed process left behind, the next one removes. Its user is
// a number without an account, of the range that systemd has for DynamicUser=: without rights, and
// nobody else can trace its processes or read their environment. Where we are not root, it is our
// own user. https://systemd.io/UIDS-GIDS/
class PrivateFolder {
 public:
  // Below $TMPDIR, else /var/tmp. Kinds: those of fail_errno().
  static Result<PrivateFolder> make();
  PrivateFolder(PrivateFolder&& other) noexcept;
  PrivateFolder& operator=(PrivateFolder&&) = delete;
  ~PrivateFolder();

  const std::filesystem::path& path() const { return path_; }
  const User& user() const { return user_; }

  // From now on others may read it, and still change nothing.
  Result<void> show() const;

 private:
  PrivateFolder(std::filesystem::path path, io::Descriptor lock, User user);

  std::filesystem::path path_;
  io::Descriptor lock_;  // advisory, of the folder: it is in use
  User user_;
};

}  // namespace spotter::act::host

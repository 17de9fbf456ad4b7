// A folder of this machine, copied onto the volume.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "agent/aws/formats/sigv4.hpp"
#include "agent/aws/s3/crc32c.hpp"
#include "agent/data/fetched.hpp"
#include "agent/data/fifo.hpp"
#include "agent/host/prepare_fill.hpp"
#include "agent/host/user.hpp"
#include "agent/io/files.hpp"

namespace spotter::command {
namespace {

namespace fs = std::filesystem;
using act::host::AsUser;
using data::Descriptor;

constexpr std::size_t block_bytes = 4U << 20;

tl::unexpected<Error> wrong(const fs::path& path) {
  return failure(path.string() + ": " + std::strerror(errno));
}

class Copy {
 public:
  Copy(const CopyRequest& request, const act::host::User& user, const Stopping& stop)
      : request_(request), user_(user), stop_(stop) {}

  Result<Filled> run();

 private:
  Result<void> one(const std::string& name, const fs::path& from);
  Result<void> write(const Descriptor& in, const fs::path& partial, const fs::path& from);
  Result<void> compare(const fs::path& partial, std::uint32_t sum) const;
  // To the end of the file, unless it is stopped or `take` fails.
  using Take = std::function<Result<void>(std::string_view block)>;
  Result<void> each_block(const Descriptor& file, const fs::path& path, const Take& take) const;

  const CopyRequest& request_;
  const act::host::User& user_;
  const Stopping& stop_;
  std::optional<data::Fetched> fetched_;
  Filled filled_;
};

Result<void> Copy::each_block(const Descriptor& file, const fs::path& path,
                              const Take& take) const {
  std::string block(block_bytes, '\0');
  for (;;) {
    if (stop_()) return failure("it was stopped");
    const ssize_t got = ::read(file.get(), block.data(), block.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return wrong(path);
    if (got == 0) return {};
    if (auto taken = take({block.data(), static_cast<std::size_t>(got)}); !taken) return taken;
  }
}

// What the disk itself has, not what the kernel remembers of the write.
Result<void> Copy::compare(const fs::path& partial, std::uint32_t sum) const {
  const Descriptor again(::open(partial.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!again) return wrong(partial);
  ::posix_fadvise(again.get(), 0, 0, POSIX_FADV_DONTNEED);
  std::uint32_t found = 0;
  const auto read = each_block(again, partial, [&found](std::string_view block) -> Result<void> {
    found = s3::crc32c(found, block);
    return {};
  });
  if (!read) return read;
  if (found == sum) return {};
  return failure(partial.string() + ": the disk does not give back what was written to it");
}

Result<void> Copy::write(const Descriptor& in, const fs::path& partial, const fs::path& from) {
  const int flags = O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW;
  const Descriptor out(::open(partial.c_str(), flags, 0644));
  if (!out) return wrong(partial);
  std::uint32_t sum = 0;
  const auto copied = each_block(in, from, [&](std::string_view block) -> Result<void> {
    sum = s3::crc32c(sum, block);
    filled_.bytes += block.size();
    while (!block.empty()) {
      const ssize_t put = ::write(out.get(), block.data(), block.size());
      if (put < 0 && errno == EINTR) continue;
      if (put <= 0) return wrong(partial);
      block.remove_prefix(static_cast<std::size_t>(put));
    }
    return {};
  });
  if (!copied) return copied;
  if (::fsync(out.get()) != 0) return wrong(partial);
  return compare(partial, sum);
}

Result<void> Copy::one(const std::string& name, const fs::path& from) {
  const Descriptor in(::open(from.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat status {};
  if (!in || ::fstat(in.get(), &status) != 0) return wrong(from);
  const std::string version = "modified=" + std::to_string(status.st_mtim.tv_sec) + "." +
                              std::to_string(status.st_mtim.tv_nsec);
  const AsUser as(user_);
  const fs::path to = fs::path(request_.to) / name;
  const auto size = static_cast<std::uint64_t>(status.st_size);
  ++filled_.files;
  if (fetched_->is_whole(request_.to, name, size, version)) return {};
  if (auto made = io::make_directories(to.parent_path(), 0755); !made)
    return failure(to.parent_path().string() + ": " + made.error().message());
  const fs::path partial = to.parent_path() / (".spotter-" + wire::sha256_hex(name).substr(0, 16));
  if (auto written = write(in, partial, from); !written) {
    ::unlink(partial.c_str());
    return written;
  }
  struct stat after {};
  if (::fstat(in.get(), &after) != 0) return wrong(from);
  if (after.st_size != status.st_size || after.st_mtim.tv_sec != status.st_mtim.tv_sec ||
      after.st_mtim.tv_nsec != status.st_mtim.tv_nsec)
    return failure(from.string() + " has changed while it was copied: run it again");
  if (::rename(partial.c_str(), to.c_str()) != 0) return wrong(to);
  if (auto synced = io::fsync_directory(to.parent_path()); !synced)
    return failure(to.parent_path().string() + ": " + synced.error().message());
  if (!fetched_->add_whole(request_.to, name, version)) return wrong(to);
  ++filled_.fetched;
  return fetched_->keep();
}

Result<Filled> Copy::run() {
  const auto files = files_of(request_.from);
  if (!files) return tl::unexpected(files.error());
  if (files->empty()) return failure("there is nothing in " + request_.from);
  auto fetched = [this] {
    const AsUser as(user_);
    return data::Fetched::open(request_.ledger);
  }();
  if (!fetched) return tl::unexpected(fetched.error());
  fetched_ = std::move(*fetched);
  for (const auto& [name, path] : *files)
    if (auto copied = one(name, path); !copied) return tl::unexpected(copied.error());
  return filled_;
}

}  // namespace

// What is no file (a socket, a device) is not looked at.
Result<LocalFiles> files_of(const fs::path& from) {
  LocalFiles files;
  std::error_code error;
  if (fs::is_regular_file(from, error)) return LocalFiles{{from.filename().string(), from}};
  if (!fs::is_directory(from, error))
    return failure(from.string() + " is no folder of this machine, nor a file");
  for (fs::recursive_directory_iterator at(from, error), end; !error && at != end;
       at.increment(error)) {
    std::error_code unreadable;
    if (at->is_regular_file(unreadable))
      files.emplace_back(fs::relative(at->path(), from, unreadable), at->path());
    else if (at->is_symlink(unreadable) && !fs::exists(at->path(), unreadable))
      return failure(at->path().string() + " is a link that leads nowhere");
  }
  if (error) return failure(from.string() + ": " + error.message());
  std::ranges::sort(files);
  return files;
}

Result<Filled> copy_in(const CopyRequest& request, const Stopping& stop) {
  const auto user = act::host::find_user(request.user);
  if (!user) return failure(user.error().message);
  return Copy(request, *user, stop).run();
}

}  // namespace spotter::command

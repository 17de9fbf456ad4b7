// The sources of `prepare:` onto the mounted volume.
#include "agent/host/prepare.hpp"

#include <fcntl.h>
#include <sys/file.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <thread>

#include "agent/aws/formats/sigv4.hpp"
#include "agent/aws/s3/crc.hpp"
#include "agent/aws/settings/settings.hpp"
#include "agent/base/text.hpp"
#include "agent/config/prepare.hpp"
#include "agent/data/download.hpp"
#include "agent/data/fetched.hpp"
#include "agent/data/fifo.hpp"
#include "agent/data/web_file.hpp"
#include "agent/host/layout.hpp"
#include "agent/io/files.hpp"
#include "agent/io/safe_directory.hpp"

namespace spotter::command {
namespace {

using act::host::AsUser;
using act::host::User;
using verbs::Fill;
using OrderedJson = nlohmann::ordered_json;
using data::Descriptor;

struct Filled {
  Source source;
  std::size_t files = 0;
  std::size_t fetched = 0;  // of them, now
  std::uint64_t bytes = 0;  // that came, now
};

constexpr std::size_t memory = 192U << 20;  // the cheapest instances have half a GiB

// Its location in S3: by its own word, or because the machine that has the folder sent it there.
std::optional<wire::S3Location> place_in_s3(const Source& source) {
  if (const auto where = wire::parse_s3_url(source.from)) return *where;
  std::error_code error;
  const auto via = wire::parse_s3_url(source.via);
  return via && !fs::exists(source.from, error) ? std::optional(*via) : std::nullopt;
}

bool is_s3(const Source& source) { return place_in_s3(source).has_value(); }
bool is_web(const Source& source) { return source.from.starts_with("http"); }

// The downloader keeps what is not yet whole there, beside the folder: only root can make it.
fs::path partials_of(const Source& source) {
  const fs::path to(source.to);
  return to.parent_path() / (".spotter-" + to.filename().string());
}

// The record of a source's files; each source has its own, so that none is taken for another's.
fs::path state_of(const Fill& request, const Source& source) {
  const std::string id = wire::sha256_hex(source.from + "\n" + source.to).substr(0, 16);
  return fs::path(request.mount_point) / ".spotter/prepare" / id;
}

// A trainer that had the volume may have left anything below it: no link is followed.
Result<void> make_state(const Fill& request, const Source& source, const User& user) {
  const fs::path state = state_of(request, source);
  auto at = io::SafeDirectory::open(request.mount_point);
  for (const auto& part : state.lexically_relative(request.mount_point))
    if (at) at = at->make_folder(part, 0755);
  if (!at) return failure(state.string() + ": " + at.error().message());
  if (::geteuid() != 0 || at->give(user.uid, user.gid)) return {};
  return failure("cannot give " + state.string() + " to " + user.name);
}

// When its agent is killed a fill goes on to its end, and two at once would rename each other's
// files. The lock is held until the descriptor and those of forked children are closed. Only root
// can open the file, so no trainer can hold it.
Result<io::Descriptor> lock_out_others(const Fill& request, const Stopping& stop) {
  static constexpr const char* name = "filling.lock";
  auto lock = io::SafeDirectory::open(request.mount_point)
                  .and_then([](const io::SafeDirectory& root) { return root.folder(".spotter"); })
                  .and_then([](const io::SafeDirectory& own) {
                    return own.file(name, O_RDWR | O_CREAT, 0600);
                  });
  const std::string path = request.mount_point + "/.spotter/" + name;
  if (!lock) return failure(path + ": " + lock.error().message());
  while (::flock(lock->get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) return failure(path + ": " + std::strerror(errno));
    if (stop()) return failure("it was stopped while an earlier `spotter prepare` still filled it");
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  return std::move(*lock);
}

// Listed each time: what has come to the bucket since is to come here, too.
Result<Filled> from_s3(const Fill& request, const Source& source, const fs::path& state,
                       const Stopping& stop) {
  const auto where = place_in_s3(source);
  const fs::path to = fs::path(request.mount_point) / source.to;
  wire::Channel channel;
  channel.name = to.filename();
  channel.source = *where;
  channel.mode = wire::InputMode::File;
  std::error_code ignored;
  fs::remove(state / (channel.name + ".listing"), ignored);
  data::DownloadSettings settings;
  settings.channels = {channel};
  settings.directory = to.parent_path();
  settings.state = state;
  settings.budget = memory;
  settings.s3.environment = act::Environment::of_this_process();
  const auto done = TRY(data::download(settings, stop));
  return Filled{source, done.front().files, done.front().fetched, done.front().bytes};
}

Result<Filled> from_web(const Fill& request, const Source& source, const fs::path& state,
                        const Stopping& stop) {
  data::WebFile file;
  file.url = source.from;
  file.folder = fs::path(request.mount_point) / source.to;
  file.ledger = state / "files";
  file.sha256 = source.sha256;
  const auto done = TRY(data::fetch_web(file, stop));
  return Filled{source, 1, done.was_there ? 0U : 1U, done.bytes};
}

// Also where the downloader keeps what is not yet whole. The user's; those that are there stay as
// they are.
Result<void> make_folders(const Fill& request, const User& user) {
  for (const Source& source : request.sources) {
    std::vector<fs::path> folders{source.to};
    if (is_s3(source)) folders.push_back(partials_of(source));
    for (const fs::path& folder : folders) {
      auto at = io::SafeDirectory::open(request.mount_point);
      for (const auto& part : folder)
        if (at) at = act::host::make_for(*at, part, user);
      if (!at)
        return failure(request.mount_point + "/" + folder.string() + ": " + at.error().message());
    }
  }
  return {};
}

// The folder stays if something is left in it; the next time goes on with that.
void remove_partials(const Fill& request, const Source& source) {
  const auto root = io::SafeDirectory::open(request.mount_point);
  if (root) (void)root->remove_folder(partials_of(source));
}

Result<void> write_manifest(const Fill& request, const std::string& digest,
                            const std::vector<Filled>& filled) {
  static constexpr const char* name = "prepared.json";
  OrderedJson sources = OrderedJson::array();
  for (const Filled& it : filled) {
    OrderedJson one = {{"from", it.source.from}, {"to", it.source.to}, {"files", it.files}};
    if (!it.source.sha256.empty()) one["sha256"] = it.source.sha256;
    one["ledger"] = state_of(request, it.source).lexically_relative(request.mount_point).string();
    sources.push_back(std::move(one));
  }
  const OrderedJson manifest = {{"format", 1},
                                {"job", request.job},
                                {"volume", request.volume},
                                {"digest", digest},
                                {"sources", std::move(sources)}};
  const std::string text =
      manifest.dump(2, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
  const auto written =
      io::SafeDirectory::open(request.mount_point)
          .and_then([](const io::SafeDirectory& root) { return root.folder(".spotter"); })
          .and_then([&text](const io::SafeDirectory& own) { return own.write(name, text, 0644); });
  if (written) return {};
  return failure(request.mount_point + "/.spotter/" + name + ": " + written.error().message());
}

// A folder of this machine, copied onto the volume.

constexpr std::size_t block_bytes = 4U << 20;

tl::unexpected<Error> wrong(const fs::path& path) {
  return failure(path.string() + ": " + std::strerror(errno));
}

// Written as the user, made durable, read again from the disk and compared; a link is followed to a
// file, and not to a folder.
class Copy {
 public:
  Copy(const Source& source, std::string to, std::string ledger, const User& user,
       const Stopping& stop)
      : to_(std::move(to)), ledger_(std::move(ledger)), user_(user), stop_(stop), filled_{source} {}

  Result<Filled> run() {
    const auto files = TRY(config::files_of(filled_.source.from));
    if (files.empty()) return failure("there is nothing in " + filled_.source.from);
    fetched_ = TRY([this] {
      const AsUser as(user_);
      return data::Fetched::open(ledger_);
    }());
    for (const auto& [name, path] : files) TRY(one(name, path));
    return filled_;
  }

 private:
  Result<void> one(const std::string& name, const fs::path& from) {
    const auto in = io::open_for_reading(from);
    if (!in && in.error().value() == EPERM)
      return failure(from.string() + " is another user's link to what not everybody may read");
    if (!in) return failure(from.string() + ": " + in.error().message());
    struct stat status {};
    if (::fstat(in->get(), &status) != 0) return wrong(from);
    const std::string version = "modified=" + std::to_string(status.st_mtim.tv_sec) + "." +
                                std::to_string(status.st_mtim.tv_nsec);
    const AsUser as(user_);
    const fs::path to = fs::path(to_) / name;
    const auto size = static_cast<std::uint64_t>(status.st_size);
    ++filled_.files;
    if (fetched_->is_whole(to_, name, size, version)) return {};
    TRY(behind(to.parent_path().string(), io::make_directories(to.parent_path(), 0755)));
    const fs::path partial =
        to.parent_path() / (".spotter-" + wire::sha256_hex(name).substr(0, 16));
    if (auto written = write(*in, partial, from); !written) {
      ::unlink(partial.c_str());
      return written;
    }
    struct stat after {};
    if (::fstat(in->get(), &after) != 0) return wrong(from);
    if (after.st_size != status.st_size || after.st_mtim.tv_sec != status.st_mtim.tv_sec ||
        after.st_mtim.tv_nsec != status.st_mtim.tv_nsec)
      return failure(from.string() + " has changed while it was copied: run it again");
    if (::rename(partial.c_str(), to.c_str()) != 0) return wrong(to);
    TRY(behind(to.parent_path().string(), io::fsync_directory(to.parent_path())));
    if (!fetched_->add_whole(to_, name, version)) return wrong(to);
    ++filled_.fetched;
    return fetched_->keep();
  }

  Result<void> write(const Descriptor& in, const fs::path& partial, const fs::path& from) {
    const int flags = O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW;
    const Descriptor out(::open(partial.c_str(), flags, 0644));
    if (!out) return wrong(partial);
    std::uint32_t sum = 0;
    TRY(each_block(in, from, [&](std::string_view block) -> Result<void> {
      sum = s3::crc32c(sum, block);
      filled_.bytes += block.size();
      if (!io::write_all(out.get(), block)) return wrong(partial);
      return {};
    }));
    if (::fsync(out.get()) != 0) return wrong(partial);
    return compare(partial, sum);
  }

  // Compares what the disk itself has, not what the kernel remembers of the write.
  Result<void> compare(const fs::path& partial, std::uint32_t sum) const {
    const Descriptor again(::open(partial.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    if (!again) return wrong(partial);
    ::posix_fadvise(again.get(), 0, 0, POSIX_FADV_DONTNEED);
    std::uint32_t found = 0;
    TRY(each_block(again, partial, [&found](std::string_view block) -> Result<void> {
      found = s3::crc32c(found, block);
      return {};
    }));
    if (found == sum) return {};
    return failure(partial.string() + ": the disk does not give back what was written to it");
  }

  // To the end of the file, unless it is stopped or `take` fails.
  using Take = std::function<Result<void>(std::string_view block)>;

  Result<void> each_block(const Descriptor& file, const fs::path& path, const Take& take) const {
    std::string block(block_bytes, '\0');
    for (;;) {
      if (stop_()) return failure("it was stopped");
      const ssize_t got = ::read(file.get(), block.data(), block.size());
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return wrong(path);
      if (got == 0) return {};
      TRY(take({block.data(), static_cast<std::size_t>(got)}));
    }
  }

  std::string to_, ledger_;
  const User& user_;
  const Stopping& stop_;
  std::optional<data::Fetched> fetched_;
  Filled filled_;
};

Result<Filled> bring(const Fill& request, const Source& source, const User& user,
                     const Stopping& stop) {
  const fs::path state = state_of(request, source);
  TRY(make_state(request, source, user));
  if (!is_s3(source) && !is_web(source))
    return Copy(source, request.mount_point + "/" + source.to, state / "files", user, stop).run();
  const AsUser as(user);
  return is_s3(source) ? from_s3(request, source, state, stop)
                       : from_web(request, source, state, stop);
}

}  // namespace

Result<std::vector<std::string>> fill(const Fill& request, const Stopping& stop) {
  const auto user = act::host::find_user(request.user);
  if (!user) return failure(user.error().message);
  const auto alone = TRY(lock_out_others(request, stop));
  TRY(make_folders(request, *user));
  std::vector<Filled> filled;
  std::vector<std::string> said;
  for (const Source& source : request.sources) {
    const Filled& one = filled.emplace_back(TRY(bring(request, source, *user, stop)));
    said.push_back(source.to + " has " + std::to_string(one.files) + " files of " + source.from +
                   ", " + std::to_string(one.fetched) + " of them fetched now, " +
                   printed("%.3f GB", static_cast<double>(one.bytes) / 1e9));
    if (is_s3(source)) remove_partials(request, source);
  }
  TRY(write_manifest(request, config::digest_of(request.sources), filled));
  return said;
}

}  // namespace spotter::command

#include "agent/tier/results.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include "trainer/library/manifest.hpp"

namespace spotter::tier {
namespace {

using bucket::Files;

bool lies_in(const std::string& path, const std::string& folder) {
  return path == folder || path.starts_with(folder + "/");
}

std::string tidy(std::string path) {
  while (path.ends_with('/')) path.pop_back();
  while (path.starts_with("./")) path.erase(0, 2);
  return path;
}

bool is_in(const Files& files, const std::string& path) {
  const std::string whole = tidy(path);
  return std::ranges::any_of(files, [&](const auto& it) { return lies_in(it.first, whole); });
}

constexpr int deepest = 32;  // as a manifest has them

}  // namespace

bool is_absent(const std::error_code& error) {
  return error == std::errc::no_such_file_or_directory || error == std::errc::not_a_directory;
}

Result<void> walk(const io::SafeDirectory& home, const std::string& path, Inventory& into,
                  int depth) {
  const auto status = home.look(path);
  if (!status && is_absent(status.error())) return {};
  if (!status) return failure("cannot look at " + path + ": " + status.error().message());
  if (S_ISREG(status->st_mode)) {
    if (bucket::is_path(path))
      into.others.push_back({path, path, {}, std::nullopt});
    else
      into.left_out.push_back(path + " has a name that no bucket takes");
    return {};
  }
  if (!S_ISDIR(status->st_mode)) return {};
  if (depth > deepest) {
    into.left_out.push_back(path + " lies in too many folders");
    return {};
  }
  const auto folder = home.folder(path);
  if (!folder && is_absent(folder.error())) return {};
  const auto names =
      TRY(behind("cannot list " + path, folder ? folder->names() : tl::unexpected(folder.error())));
  for (const std::string& name : names) {
    if (into.others.size() > bucket::most_files)
      return failure("there are too many files below " + path);
    TRY(walk(home, path + "/" + name, into, depth + 1));
  }
  return {};
}

bucket::Sender::Open opener(const io::SafeDirectory& folder) {
  return [&folder](const std::string& name) -> Result<checkpoint::Descriptor, std::error_code> {
    auto file = TRY(folder.file(name, O_RDONLY));
    return checkpoint::Descriptor(file.release());
  };
}

bool is_whole(const io::SafeDirectory& folder, const bucket::Files::value_type& file) {
  const auto opened = folder.file(file.first, O_RDONLY);
  struct stat status {};
  if (!opened || ::fstat(opened->get(), &status) != 0) return false;
  const std::uint64_t bytes = file.second.bytes;
  if (static_cast<std::uint64_t>(status.st_size) != bytes) return false;
  if (bytes == 0) return true;
  void* data = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, opened->get(), 0);
  if (data == MAP_FAILED) return false;
  const auto sum = checkpoint::sum_of(std::string_view(static_cast<const char*>(data), bytes));
  ::munmap(data, bytes);
  return sum == file.second.sum;
}

Result<void> make_folders(const io::SafeDirectory& folder, const std::string& path) {
  for (auto slash = path.find('/'); slash != path.npos; slash = path.find('/', slash + 1)) {
    TRY(behind("cannot make the folder of " + path,
               folder.make_folder(path.substr(0, slash), 0755)));
  }
  return {};
}

Result<checkpoint::Descriptor> make_file(const io::SafeDirectory& folder, const std::string& path) {
  TRY(make_folders(folder, path));
  auto file =
      TRY(behind("cannot make " + path, folder.file(path, O_WRONLY | O_CREAT | O_EXCL, 0644)));
  return checkpoint::Descriptor(file.release());
}

Result<Fetched> fetch_files(bucket::Bucket& bucket,
                            const std::vector<const bucket::Files::value_type*>& files,
                            const io::SafeDirectory& folder, const std::string& coming,
                            std::function<void(std::size_t)> received) {
  Fetched fetched;
  bucket::Receiver receiver;
  receiver.make = [&](std::size_t) { return make_file(folder, coming); };
  receiver.received = std::move(received);
  receiver.ended = [&](std::size_t i, const Result<void>& verified) -> Result<void> {
    const auto& [path, file] = *files[i];
    if (!verified) {
      fetched.torn.emplace(path, verified.error().message);
      (void)folder.remove(coming);
      return {};
    }
    TRY(make_folders(folder, path));
    TRY(behind("cannot make " + path, folder.rename(coming, folder, path)));
    ++fetched.files;
    fetched.bytes += file.bytes;
    return {};
  };
  TRY(bucket::fetch(bucket, files, receiver));
  return fetched;
}

std::string results_manifest() { return bucket::manifest_name("result"); }

bool names_all(const bucket::Manifest& manifest, const std::vector<std::string>& paths) {
  return std::ranges::all_of(paths,
                             [&](const std::string& path) { return is_in(manifest.files, path); });
}

Result<Sent> send_files(bucket::Bucket& bucket, const std::string& job, const Outgoing& wanted) {
  Sent sent;
  Inventory found;
  Result<io::SafeDirectory, std::error_code> home = tl::unexpected(std::error_code());
  Result<void> listed;
  wanted.as_owner([&] {
    home = io::SafeDirectory::open(wanted.home);
    for (const std::string& path : wanted.paths)
      if (home && listed) listed = walk(*home, tidy(path), found);
  });
  if (!home) return failure("cannot open " + wanted.home.string() + ": " + home.error().message());
  if (!listed) return tl::unexpected(listed.error());
  sent.left_out = std::move(found.left_out);
  if (found.others.empty()) return sent;
  const auto open = opener(*home);
  bucket::Sender sender(bucket, "", [&](const std::string& name) {
    Result<checkpoint::Descriptor, std::error_code> opened = tl::unexpected(std::error_code());
    wanted.as_owner([&] { opened = open(name); });
    return opened;
  });
  auto there = TRY(sender.send(found.others));
  bucket::Manifest manifest{.job = job, .files = std::move(there)};
  sent.files = manifest.files.size();
  for (const auto& [path, file] : manifest.files) sent.bytes += file.bytes;
  TRY(bucket.replace(results_manifest(), manifest));
  return sent;
}

std::string coming_file(const fs::path& to) {
  return to / (".spotter-fetching-" + std::to_string(::getpid()));
}

Result<Arrived> bring_files(bucket::Bucket& bucket, const bucket::Manifest& manifest,
                            const Incoming& wanted) {
  for (const std::string& path : wanted.paths)
    if (!is_in(manifest.files, path)) return failure("there is no " + path + " in it");
  std::error_code error;
  fs::create_directories(wanted.to, error);
  const auto folder =
      TRY(behind("cannot use " + wanted.to.string(), io::SafeDirectory::open(wanted.to)));
  Arrived arrived;
  std::vector<const Files::value_type*> missing;
  std::uint64_t bytes = 0, come = 0;
  for (const Files::value_type& each : manifest.files) {
    const bool asked = std::ranges::any_of(
        wanted.paths, [&](const std::string& path) { return lies_in(each.first, tidy(path)); });
    if (!asked && (!wanted.paths.empty() || lies_in(each.first, own_folder))) continue;
    arrived.names.push_back(each.first);
    if (is_whole(folder, each)) {
      ++arrived.there;
    } else {
      missing.push_back(&each);
      bytes += each.second.bytes;
    }
  }
  const std::string coming = fs::path(coming_file(wanted.to)).filename();
  const auto fetched = fetch_files(bucket, missing, folder, coming, [&](std::size_t more) {
    come += more;
    if (wanted.progress) wanted.progress(come, bytes);
  });
  if (!fetched) {
    (void)folder.remove(coming);
    return tl::unexpected(fetched.error());
  }
  arrived.files = fetched->files;
  arrived.bytes = fetched->bytes;
  for (const auto& [path, why] : fetched->torn) arrived.torn.push_back(path + ": " + why);
  return arrived;
}

}  // namespace spotter::tier

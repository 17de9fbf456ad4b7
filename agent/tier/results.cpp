#include "agent/tier/results.hpp"

#include <unistd.h>

#include <algorithm>

#include "agent/tier/home.hpp"

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

}  // namespace

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
  auto there = sender.send(found.others);
  if (!there) return tl::unexpected(there.error());
  bucket::Manifest manifest{.job = job, .files = *std::move(there)};
  sent.files = manifest.files.size();
  for (const auto& [path, file] : manifest.files) sent.bytes += file.bytes;
  if (auto written = bucket.replace(results_manifest(), manifest); !written)
    return tl::unexpected(written.error());
  return sent;
}

std::string coming_file(const std::filesystem::path& to) {
  return to / (".spotter-fetching-" + std::to_string(::getpid()));
}

Result<Arrived> bring_files(bucket::Bucket& bucket, const bucket::Manifest& manifest,
                            const Incoming& wanted) {
  for (const std::string& path : wanted.paths)
    if (!is_in(manifest.files, path)) return failure("there is no " + path + " in it");
  std::error_code error;
  std::filesystem::create_directories(wanted.to, error);
  const auto folder = io::SafeDirectory::open(wanted.to);
  if (!folder) return failure("cannot use " + wanted.to.string() + ": " + folder.error().message());
  Arrived arrived;
  std::vector<const Files::value_type*> missing;
  std::uint64_t bytes = 0, come = 0;
  for (const Files::value_type& each : manifest.files) {
    const bool asked = std::ranges::any_of(
        wanted.paths, [&](const std::string& path) { return lies_in(each.first, tidy(path)); });
    if (!asked && (!wanted.paths.empty() || lies_in(each.first, own_folder))) continue;
    arrived.names.push_back(each.first);
    if (is_whole(*folder, each)) {
      ++arrived.there;
    } else {
      missing.push_back(&each);
      bytes += each.second.bytes;
    }
  }
  const std::string coming = std::filesystem::path(coming_file(wanted.to)).filename();
  const auto fetched = fetch_files(bucket, missing, *folder, coming, [&](std::size_t more) {
    come += more;
    if (wanted.progress) wanted.progress(come, bytes);
  });
  if (!fetched) {
    (void)folder->remove(coming);
    return tl::unexpected(fetched.error());
  }
  arrived.files = fetched->files;
  arrived.bytes = fetched->bytes;
  for (const auto& [path, why] : fetched->torn) arrived.torn.push_back(path + ": " + why);
  return arrived;
}

}  // namespace spotter::tier

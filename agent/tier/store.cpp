#include "agent/tier/store.hpp"

#include <algorithm>
#include <functional>
#include <set>

#include "agent/aws/s3/objects.hpp"
#include "agent/guard/record.hpp"
#include "agent/tier/download.hpp"
#include "agent/tier/sender.hpp"
#include "trainer/library/files.hpp"
#include "trainer/library/manifest.hpp"

namespace spotter::tier {
namespace {

constexpr const char* manifest_name = "manifest.json";
constexpr const char* files_folder = "files/";

tl::unexpected<Error> failed(const s3::Failure& why) { return failure(why.text()); }

}  // namespace

std::string Store::key_of(const Group& group, const std::string& name) const {
  return prefix_.key + group.first + "/" + group.second + "/" + name;
}

std::string Store::shown(const Manifest& manifest) const {
  return wire::to_url(at(prefix_.key + manifest.name));
}

Result<Store::Groups> Store::groups() {
  const auto all = s3::list(client_, prefix_);
  if (!all) return failed(all.error());
  Groups groups;
  for (const auto& object : *all) {
    const std::string path = object.key.substr(prefix_.key.size());
    const auto slash = path.find('/');
    const auto second = slash == path.npos ? slash : path.find('/', slash + 1);
    if (second == path.npos) continue;
    const Group group{path.substr(0, slash), path.substr(slash + 1, second - slash - 1)};
    if (is_folder_name(group.first) && checkpoint::is_sum(group.second))
      groups[group].push_back(object.key);
  }
  return groups;
}

Result<Stored> Store::stored() {
  const auto all = groups();
  return all ? stored(*all) : tl::unexpected(all.error());
}

Result<Stored> Store::stored(const Groups& groups) {
  Stored stored;
  for (const auto& [group, keys] : groups) {
    const auto where = at(key_of(group, manifest_name));
    if (std::ranges::find(keys, where.key) == keys.end()) continue;
    const auto bytes = s3::read(client_, where);
    if (!bytes && bytes.error().kind == s3::Failure::Kind::NoSuchKey) continue;
    if (!bytes) return failed(bytes.error());
    auto manifest = decode(bytes->bytes);
    const std::string shown = wire::to_url(where);
    if (!manifest && wire::is_newer(manifest.error()))
      return failure(shown + ": " + manifest.error().message, wire::newer_format);
    const bool fits = manifest && manifest->name == group.first && manifest->sum() == group.second;
    if (!fits) {
      stored.torn.push_back(shown + ": " +
                            (manifest ? "it is of another folder" : manifest.error().message));
    } else if (manifest->job != job_) {
      return failure(shown + " is a checkpoint of the job '" + manifest->job +
                     "': give this one a place of its own in checkpoints.s3");
    } else {
      stored.whole.push_back(*std::move(manifest));
    }
  }
  std::ranges::sort(stored.whole, std::greater(), &Manifest::order);
  return stored;
}

Result<void> Store::copy(const guard::Place& place, const Manifest& manifest) {
  const Group group{manifest.name, manifest.sum()};
  const std::string text = encode(manifest);
  if (!decode(text)) return failure("its names or sizes are such as the tier does not take");
  const auto before = stored();
  if (!before) return tl::unexpected(before.error());
  const bool there = std::ranges::any_of(before->whole, [&group](const Manifest& other) {
    return other.name == group.first && other.sum() == group.second;
  });
  if (there) return {};
  const auto folder = place.folder(manifest.name);
  if (!folder) return failure("it cannot be read: " + folder.error().message());
  Sender sender(client_, *folder, at(key_of(group, files_folder)));
  if (auto sent = sender.send(manifest.parts); !sent) return sent;
  const auto committed = s3::put(client_, at(key_of(group, manifest_name)), text, {.absent = true});
  if (!committed && committed.error().kind != s3::Failure::Kind::Exists)
    return failed(committed.error());
  remove_older(manifest);
  return {};
}

// Failures are ignored until the next copy. A folder without a manifest is what is left of an
// interrupted copy: the one of a later step may be under way.
void Store::remove_older(const Manifest& written) {
  const auto all = groups();
  const auto kept = all ? stored(*all) : tl::unexpected(all.error());
  if (!kept) return;
  std::set<Group> spared, whole;
  for (const Manifest& manifest : kept->whole) {
    const Group group{manifest.name, manifest.sum()};
    whole.insert(group);
    if (spared.size() < kept_in_s3) spared.insert(group);
  }
  spared.insert({written.name, written.sum()});  // also where newer ones are there
  for (const auto& [group, keys] : *all) {
    if (spared.contains(group)) continue;
    const bool has_manifest = std::ranges::find(keys, key_of(group, manifest_name)) != keys.end();
    if (has_manifest && !whole.contains(group)) continue;  // a damaged one: a person's to remove
    const auto step = guard::step_in(group.first);
    if (has_manifest || !step || *step <= written.step) remove(group, keys);
  }
}

// The manifest first, as it was written last.
void Store::remove(const Group& group, const std::vector<std::string>& keys) {
  if (!s3::remove(client_, at(key_of(group, manifest_name)))) return;
  for (const std::string& key : keys) (void)s3::remove(client_, at(key));
}

Result<void, guard::Refusal> Store::fetch(const guard::Place& place, const Manifest& manifest) {
  const Group group{manifest.name, manifest.sum()};
  Download download(client_, place, at(key_of(group, files_folder)));
  return download.fetch(manifest);
}

}  // namespace spotter::tier

#include "agent/data/fast_file/view.hpp"

#include <unordered_map>

#include "agent/data/fetched.hpp"
#include "agent/host/mounts.hpp"
#include "agent/io/files.hpp"

namespace spotter::fastfile {

View::View(ViewSettings settings, s3::Client& client)
    : settings_(std::move(settings)),
      client_(client),
      catalogue_(settings_.channel, settings_.frozen) {
  catalogue_.begin(client_);
}

// Chooses the same files as mode `file`.
Result<void> View::choose_files() {
  const auto& entries = catalogue_.entries();
  const data::Shard shard = settings_.channel.sharded ? settings_.shard : data::Shard{};
  std::vector<Tree::File> names;
  std::unordered_map<std::string, const data::Entry*> chosen;
  for (std::size_t i = shard.index; i < entries.size(); i += shard.count) {
    const auto& entry = entries[i];
    const auto name = data::file_name(catalogue_.prefix(), entry.key);
    if (!name) return tl::unexpected(name.error());
    const auto [at, added] = chosen.emplace(*name, &entry);
    if (!added && at->second->key == entry.key) continue;  // a manifest may name it twice
    names.push_back({*name, entry.modified});
    files_.push_back({.bucket = data::bucket_of(entry, settings_.channel),
                      .key = entry.key,
                      .etag = entry.etag,
                      .size = entry.size,
                      .checksum = entry.checksum});
  }
  auto tree = Tree::make(names);
  if (!tree) return tl::unexpected(tree.error());
  tree_ = std::move(*tree);
  return {};
}

Result<void> View::mount() {
  if (auto chosen = choose_files(); !chosen) return chosen;
  auto memory = data::Memory::make(settings_.budget);
  if (!memory) return tl::unexpected(memory.error());
  cache_ = std::make_unique<Cache>(files_, client_, std::move(*memory));
  const auto place = settings_.directory / settings_.channel.name;
  if (settings_.mounted < 0) {
    act::host::detach_views(place);  // a view whose process has died
    if (auto made = io::make_directories(place, 0755); !made)
      return failure(place.string() + ": " + made.error().message());
  }
  auto session = Session::mount(
      settings_.mounted < 0 ? place.string() : "/dev/fd/" + std::to_string(settings_.mounted),
      "spotter:" + settings_.channel.name,
      {tree_, files_, *cache_, [this](const s3::Failure& why) { fail(said(why.text())); }});
  if (!session) return tl::unexpected(session.error());
  session_ = std::move(*session);
  return {};
}

void View::fail(const std::string& what) {
  if (!failed_) settings_.failed(what);
  failed_ = true;
}

void View::advance() {
  if (catalogue_.failed()) fail(*catalogue_.failed());
  if (session_) {
    session_->serve();
    cache_->advance();
    if (session_->ended()) fail(said("somebody has unmounted it"));
  } else if (catalogue_.complete() && !failed_) {
    if (auto mounted = mount(); !mounted) fail(said(mounted.error().message));
  }
}

}  // namespace spotter::fastfile

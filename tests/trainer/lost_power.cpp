#include "tests/trainer/lost_power.hpp"

#include <algorithm>
#include <fstream>
#include <map>

namespace spotter::test {

namespace fs = std::filesystem;

namespace {

using Kind = Call::Kind;

struct Node {
  bool directory = false;
  std::string bytes;
  std::map<std::string, std::uint64_t> names;
};
using Nodes = std::map<std::uint64_t, Node>;

void change_names(const Call& call, Nodes& nodes) {
  auto& names = nodes[call.directory].names;
  switch (call.kind) {
    case Kind::Create:
    case Kind::MakeDirectory:
    case Kind::Link:
      names[call.name] = call.node;
      break;
    case Kind::Unlink:
      names.erase(call.name);
      break;
    case Kind::Rename:
      // The file that it was to move may not have come to the disk.
      if (const auto moved = names.extract(call.name)) {
        names[call.other_name] = moved.mapped();
      }
      break;
    case Kind::Exchange:
      if (names.contains(call.name) && names.contains(call.other_name)) {
        std::swap(names[call.name], names[call.other_name]);
      }
      break;
    default:
      break;
  }
}

void write_tree(const Nodes& nodes, std::uint64_t number, const fs::path& path) {
  const auto found = nodes.find(number);
  if (found == nodes.end()) return;
  if (!found->second.directory) {
    std::ofstream(path, std::ios::binary) << found->second.bytes;
    return;
  }
  fs::create_directories(path);
  for (const auto& [name, node] : found->second.names) write_tree(nodes, node, path / name);
}

bool is_data(Kind kind) {
  return kind == Kind::Write || kind == Kind::Resize || kind == Kind::Truncate;
}

}  // namespace

Recording::Recording(const fs::path& directory) {
  shim_.after = [this](const Call& call) {
    log_.push_back({call, std::string(call.bytes), 0});
    log_.back().call.bytes = {};
  };
  shim_.install(directory.string());
}

void Recording::acknowledge(std::uint64_t step) { log_.push_back({{Kind::Sync}, {}, step}); }

std::uint64_t Recording::acknowledged(std::size_t cut) const {
  std::uint64_t newest = 0;
  for (std::size_t i = 0; i < cut; ++i) newest = std::max(newest, log_[i].acknowledged);
  return newest;
}

void Recording::materialise(std::size_t cut, const Choice& choice, std::mt19937_64& random,
                            const fs::path& target) const {
  std::map<std::uint64_t, std::size_t> synced;  // of each node: the entry of its last sync
  std::size_t last_sync = 0;
  for (std::size_t i = 0; i < cut && choice.syncs_are_kept; ++i) {
    if (log_[i].call.kind != Kind::Sync || log_[i].acknowledged != 0) continue;
    synced[log_[i].call.node] = last_sync = i + 1;
  }
  std::bernoulli_distribution is_there(choice.chance);
  std::size_t journalled = last_sync;
  while (journalled < cut && is_there(random)) ++journalled;
  Nodes nodes;
  nodes[0].directory = true;
  for (std::size_t i = 0; i < cut; ++i) {
    const auto& [call, bytes, acknowledged] = log_[i];
    if (acknowledged != 0 || call.kind == Kind::Sync) continue;
    if (call.kind == Kind::MakeDirectory) nodes[call.node].directory = true;
    if (call.kind == Kind::Create) nodes[call.node];
    if (is_data(call.kind)) {
      const bool safe = i < synced[call.node];
      if (!safe && !is_there(random)) continue;
      auto& content = nodes[call.node].bytes;
      if (call.kind == Kind::Truncate) {
        content.resize(call.offset);
        continue;
      }
      std::string_view written = bytes;
      // In part: the size is there, the last blocks are not.
      const auto end = call.offset + written.size();
      if (content.size() < end) content.resize(end);
      if (!safe && !is_there(random)) written = written.substr(0, written.size() / 2);
      std::copy(written.begin(), written.end(), content.begin() + call.offset);
      continue;
    }
    const bool weak = choice.model == Model::Weak;
    const bool there = weak ? i < synced[call.directory] || is_there(random) : i < journalled;
    if (there) change_names(call, nodes);
  }
  write_tree(nodes, 0, target);
}

}  // namespace spotter::test

// Folders that are one checkpoint each, in S3; calls block.
//
//   PREFIX/checkpoint-500/SUM/files/model.safetensors ...   SUM: of all its files' names and bytes,
//                                  so that another content of one name overwrites nothing
//   PREFIX/checkpoint-500/SUM/manifest.json                 written last, and only if absent: the
//                                  commit
//
// All is done with the rights of the trainer's user, and with the trainer's role at AWS.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "agent/aws/s3/client.hpp"
#include "agent/guard/place.hpp"
#include "agent/guard/refusal.hpp"
#include "agent/tier/manifest.hpp"

namespace spotter::tier {

// Two, so that there is another one if the newest is torn.
inline constexpr std::size_t kept_in_s3 = 2;
// In the checkpoint directory, while a folder is fetched. Hidden: no pattern of ours matches it.
inline constexpr const char* fetching_directory = ".spotter-fetching";

struct Stored {
  std::vector<Manifest> whole;    // the newest first
  std::vector<std::string> torn;  // sentences, of those whose manifest is damaged
};

class Store {
 public:
  // `prefix` ends with a slash, or is empty.
  Store(wire::S3Location prefix, std::string job, s3::Settings settings)
      : prefix_(std::move(prefix)), job_(std::move(job)), client_(std::move(settings)) {}

  // Fails when the place cannot be read, or a manifest in it is a newer Spotter's or another job's:
  // then nothing is known.
  Result<Stored> stored();

  // Copies that folder, each file while it has the recorded size, time and sum; the manifest last.
  // Then removes all but the newest kept_in_s3, and what interrupted copies left of older ones.
  // Succeeds if it is there already.
  Result<void> copy(const guard::Place& place, const Manifest& manifest);

  // Makes the folder in the directory: all files verified, durable and with their times before it
  // has its name. Fails as Torn when S3 has other bytes than the manifest says, else as Failed.
  Result<void, guard::Refusal> fetch(const guard::Place& place, const Manifest& manifest);

  std::string shown(const Manifest& manifest) const;

 private:
  using Group = std::pair<std::string, std::string>;  // name, sum
  using Groups = std::map<Group, std::vector<std::string>>;
  std::string key_of(const Group& group, const std::string& name) const;
  wire::S3Location at(std::string key) const { return {prefix_.bucket, std::move(key)}; }
  Result<Groups> groups();
  Result<Stored> stored(const Groups& groups);
  void remove_older(const Manifest& written);
  void remove(const Group& group, const std::vector<std::string>& keys);

  wire::S3Location prefix_;
  std::string job_;
  s3::Client client_;
};

}  // namespace spotter::tier

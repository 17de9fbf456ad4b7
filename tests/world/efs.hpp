// Amazon EFS, as far as it is needed to say whether a file system can be mounted: file systems and
// mount targets are made and described, nothing is stored. Pure, as all of the world.
// https://docs.aws.amazon.com/efs/latest/ug/api-reference.html
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "tests/world/random.hpp"
#include "tests/world/world.hpp"

namespace spotter::world {

struct EfsRequest {
  std::string method;
  std::string path;  // without the query
  std::map<std::string, std::string> query;
  std::string body;
  std::string caller;
};

class Efs {
 public:
  // `world`: whose zones, faults and policies hold here, too. It must outlive this.
  Efs(World& world, std::uint64_t seed) : world_(world), random_(seed) {}

  Reply answer(const EfsRequest& request, Time now);
  static Reply refuse(const ApiError& error);

 private:
  using Answer = Expected<nlohmann::json>;
  struct FileSystem {
    std::string id;
    std::string token;
    std::string zone;  // of One Zone; else empty
    Time made{};
  };
  struct MountTarget {
    std::string id;
    std::string file_system;
    std::string subnet;
    std::string zone;
    std::string address;
    Time made{};
  };
  // One page of an answer: at most `most` entries, beginning with entry `from`.
  struct Part {
    std::size_t from = 0;
    std::size_t most = 100;
  };

  Answer carry_out(const std::string& action, const EfsRequest& request);
  std::optional<ApiError> refuse_access(const std::string& action, const EfsRequest& request) const;
  Answer create_file_system(const nlohmann::json& asked);
  Answer create_mount_target(const nlohmann::json& asked);
  Answer describe_file_systems(const EfsRequest& request) const;
  Answer describe_mount_targets(const EfsRequest& request) const;
  nlohmann::json shown(const FileSystem& it) const;
  nlohmann::json shown(const MountTarget& it) const;
  const FileSystem* find(const std::string& id) const;
  std::string arn(const std::string& id) const;

  World& world_;
  Random random_;
  Time now_{};
  std::vector<FileSystem> file_systems_;
  std::vector<MountTarget> targets_;
};

}  // namespace spotter::world

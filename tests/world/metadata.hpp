// The instance metadata service of one instance: version 2, and 1 where tokens are optional.
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/instancedata-data-retrieval.html
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/instancedata-data-categories.html
#pragma once

#include "tests/world/world.hpp"

namespace spotter::world {

class Metadata {
 public:
  Metadata(Cloud& cloud, const InstanceId& instance) : cloud_(cloud), id_(instance) {}

  Reply answer(const MetadataRequest& request);

  // Every document that this instance has now, by its path below /latest/. Typed access for the
  // simulator.
  std::map<std::string, std::string> documents();
  // The role's credentials, renewed before they expire.
  Credential credential();

 private:
  Reply token(const MetadataRequest& request);
  Reply get(const std::string& path);
  bool may_ask(const MetadataRequest& request, const Instance& instance) const;
  void add_network(const Instance& instance, std::map<std::string, std::string>& documents) const;
  void add_spot(const Instance& instance, std::map<std::string, std::string>& documents) const;
  std::string identity_document(const Instance& instance) const;
  std::string credential_document();

  Cloud& cloud_;
  InstanceId id_;
};

}  // namespace spotter::world

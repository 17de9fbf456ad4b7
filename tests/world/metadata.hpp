// The instance metadata service of one instance: version 2, and 1 where tokens are optional.
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/instancedata-data-retrieval.html
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/instancedata-data-categories.html
#pragma once

#include <type_traits>

#include "tests/world/world.hpp"

namespace spotter::world {

// The documents at a path below /latest/ or below it: of no other is the text made.
struct Documents {
  explicit Documents(std::string path) : wanted(std::move(path)) {}

  // The document at FOLDER PATH. `text`: its text, or what makes it.
  template <class Text>
  void add(std::string_view folder, std::string_view path, const Text& text) {
    const std::string_view first = std::string_view(wanted).substr(0, folder.size());
    if (!folder.starts_with(first)) return;
    if (!path.starts_with(std::string_view(wanted).substr(first.size()))) return;
    std::string& its = found[std::string(folder).append(path)];
    if constexpr (std::is_invocable_v<Text>)
      its = text();
    else
      its = text;
  }

  std::string wanted;
  std::map<std::string, std::string> found;
};

class Metadata {
 public:
  Metadata(Cloud& cloud, const InstanceId& instance) : cloud_(cloud), id_(instance) {}

  Reply answer(const MetadataRequest& request);

  // What this instance has now.
  Documents documents(const std::string& wanted);
  // The role's credentials, renewed before they expire.
  Credential credential();

 private:
  Reply token(const MetadataRequest& request);
  Reply get(const std::string& path);
  bool may_ask(const MetadataRequest& request, const Instance& instance) const;
  void add_network(const Instance& instance, Documents& documents) const;
  void add_spot(const Instance& instance, Documents& documents) const;
  std::string identity_document(const Instance& instance) const;
  std::string credential_document();

  Cloud& cloud_;
  InstanceId id_;
};

}  // namespace spotter::world

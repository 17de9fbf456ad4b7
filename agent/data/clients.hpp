// The S3 clients of a process that fetches several channels: one signs, one is anonymous, one pays.
// Channels share them and their connections.
#pragma once

#include <array>
#include <memory>

#include "agent/aws/s3/client.hpp"
#include "agent/job/channel.hpp"

namespace spotter::data {

class Clients {
 public:
  explicit Clients(s3::Settings settings) : settings_(std::move(settings)) {}

  s3::Client& of(const wire::Channel& channel) {
    auto& client = clients_.at(channel.anonymous ? 1 : channel.requester_pays ? 2 : 0);
    if (!client) {
      s3::Settings settings = settings_;
      settings.anonymous = settings.anonymous || channel.anonymous;
      settings.requester_pays = channel.requester_pays;
      client = std::make_unique<s3::Client>(std::move(settings));
    }
    return *client;
  }

  // Null: no channel has used it.
  const std::array<std::unique_ptr<s3::Client>, 3>& all() const { return clients_; }

 private:
  s3::Settings settings_;
  std::array<std::unique_ptr<s3::Client>, 3> clients_;
};

}  // namespace spotter::data

// A client beside the server of server.hpp.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>

#include "agent/aws/s3/objects.hpp"
#include "tests/s3/server.hpp"

namespace spotter::s3_test {

// Bytes that repeat nowhere, so that a shifted piece is seen.
inline std::string noise(std::size_t size, std::uint64_t seed = 1) {
  std::string bytes(size, '\0');
  std::uint64_t state = seed * 0x9E3779B97F4A7C15U + 1;
  for (auto& each : bytes) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    each = static_cast<char>(state >> 56);
  }
  return bytes;
}

class S3 : public testing::Test {
 protected:
  act::Environment environment() const {
    return act::Environment({{"AWS_ENDPOINT_URL_S3", server_.url()},
                             {"AWS_ACCESS_KEY_ID", "AKID"},
                             {"AWS_SECRET_ACCESS_KEY", "secret"},
                             {"AWS_REGION", "us-west-2"},
                             {"HOME", "/nonexistent"}});
  }
  s3::Settings settings() const {
    s3::Settings settings{.environment = environment()};
    settings.shortest_pause = std::chrono::milliseconds(1);
    settings.patience = std::chrono::milliseconds(400);
    if (const char* most = std::getenv("SPOTTER_TEST_THREADS"))
      settings.threads = opened_at_once(std::stoul(most));
    return settings;
  }
  // So many threads carry bytes, whether they are needed or not.
  static s3::Threads opened_at_once(std::size_t most) {
    return {.most = most, .busy = 0, .period = {}};
  }
  s3::Settings settings_with(s3::Threads threads) const {
    s3::Settings all = settings();
    all.threads = threads;
    all.patience = std::chrono::seconds(20);  // of a busy machine's
    return all;
  }
  static wire::S3Location at(const std::string& key) { return {"bucket", key}; }
  static s3::Object object(const std::string& key, std::size_t size, const std::string& etag = "") {
    return {"bucket", key, size, etag, {}};
  }

  Server server_;
  s3::Client client_{settings()};
};

}  // namespace spotter::s3_test

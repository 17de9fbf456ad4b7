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

// Reads the object in pieces at once; one of them alone is asked for as the whole object.
inline Result<void, s3::Failure> read_into(s3::Client& client, const s3::Object& object,
                                           std::span<char> into) {
  std::optional<s3::Failure> failed;
  std::vector<s3::Client::CallId> calls;
  std::size_t open = 0;
  for (std::size_t first = 0; first < into.size(); first += s3::piece_bytes) {
    s3::Request request{.bucket = object.bucket, .key = object.key};
    request.into = into.subspan(first, std::min(s3::piece_bytes, into.size() - first));
    request.offset = first;
    request.whole = into.size() <= s3::piece_bytes;
    request.etag = object.etag;
    ++open;
    calls.push_back(client.start(std::move(request), [&](const auto& answer) {
      --open;
      if (!answer && !failed) failed = answer.error();
    }));
  }
  while (open > 0 && !failed) client.turn(std::chrono::seconds(1));
  client.drop(calls);
  if (failed) return tl::unexpected(std::move(*failed));
  return {};
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

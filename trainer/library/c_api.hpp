// Shared by the files of the C API.
#pragma once

#include <exception>
#include <map>

#include "trainer/library/reader.hpp"
#include "trainer/library/session.hpp"
#include "trainer/library/spotter.h"

namespace spotter::checkpoint::api {

// The channels of a run: each save records how far each was read.
struct Channels {
  std::map<std::string, const channel::Reader*> open;
  // Positions of other channels, as a meta: where this run closed them, or the restored checkpoint.
  nlohmann::json left = nlohmann::json::object();
};

// The text of spotter_error() for this thread.
std::string& last_error();

inline int fail(std::string message) {
  last_error() = std::move(message);
  return -1;
}

template <class T>
int status_of(const T& result) {
  return result ? 0 : fail(result.error().message);
}

// Catches all exceptions, which must not reach C (mostly out of memory): they become failures.
template <class Otherwise, class Call>
auto guarded(Otherwise otherwise, const Call& call) noexcept -> decltype(call()) {
  try {
    last_error().clear();
    return call();
  } catch (const std::exception& error) {
    try {
      last_error() = error.what();
    } catch (const std::exception&) {  // out of memory again; the status reports it
    }
    return otherwise;
  }
}

}  // namespace spotter::checkpoint::api

struct spotter_run {
  std::unique_ptr<spotter::checkpoint::Session> session;
  std::string torn;
  bool restored = false;  // or known to start from scratch
  std::shared_ptr<spotter::checkpoint::api::Channels> channels =
      std::make_shared<spotter::checkpoint::api::Channels>();
};

// Asks a channel's feeder to begin its stream in the middle: agent/data/stream.hpp.
#pragma once

#include <filesystem>
#include <string>

#include "agent/base/result.hpp"
#include "trainer/library/position.hpp"

namespace spotter::channel {

class Request {
 public:
  // If the feeder takes no requests, does nothing, and is_granted() is true at once.
  static Result<Request> make(const std::filesystem::path& folder, const std::string& channel,
                              const Position& start);

  // True: the next FIFO that is opened begins there, if the feeder takes requests.
  bool is_granted() const;
  bool was_made() const { return !file_.empty(); }

 private:
  std::filesystem::path file_;
};

}  // namespace spotter::channel

// Asks whoever feeds a channel to begin its stream in the middle: agent/data/requests.hpp.
#pragma once

#include <filesystem>
#include <string>

#include "agent/base/result.hpp"
#include "trainer/library/position.hpp"

namespace spotter::channel {

class Request {
 public:
  // Where nobody can be asked, nothing is done, and it is granted at once.
  static Result<Request> make(const std::filesystem::path& folder, const std::string& channel,
                              const Position& start);

  // The next FIFO that is opened begins there, if there was somebody to be asked.
  bool is_granted() const;
  bool was_made() const { return !file_.empty(); }

 private:
  std::filesystem::path file_;
};

}  // namespace spotter::channel

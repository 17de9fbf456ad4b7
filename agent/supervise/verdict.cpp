#include "agent/supervise/verdict.hpp"

#include <filesystem>

namespace spotter::supervise {

Verdict judge(const Ended& ended, const Expectation& expectation) {
  std::error_code ignored;
  const bool asked = std::filesystem::exists(expectation.run_directory + "/notice", ignored);
  const bool declared = !expectation.result.empty();
  std::error_code unread;
  const bool there = declared && (std::filesystem::exists(expectation.result, unread) || unread);
  const bool trusted = (!declared || there) && (!asked || expectation.said_finished);
  Verdict verdict;
  verdict.success = ended.exit_code == 0 && trusted;
  verdict.stopped_as_asked = asked && !verdict.success;
  return verdict;
}

}  // namespace spotter::supervise

#include "agent/supervise/verdict.hpp"

#include <filesystem>

#include "agent/base/exit_status.hpp"

namespace spotter::supervise {

Verdict judge(const Ended& ended, const Expectation& expectation) {
  if (!expectation.job.empty() && ended.job != expectation.job) return {};
  std::error_code ignored;
  const bool noticed = std::filesystem::exists(expectation.run_directory + "/notice", ignored);
  const bool declared = !expectation.result.empty();
  std::error_code unread;
  const bool there = declared && (std::filesystem::exists(expectation.result, unread) || unread);
  const bool asked = noticed && !(expectation.never_asks && there);
  const bool trusted = (!declared || there) && (!asked || expectation.said_finished);
  Verdict verdict;
  verdict.success = ended.exit_code == 0 && trusted;
  verdict.stopped_as_asked = asked && !verdict.success;
  verdict.checkpoint_doubted = ended.checkpoint_doubted;
  verdict.unfit_machine = expectation.gang && !asked && ended.exit_code == give_machine_back;
  return verdict;
}

Result<void> forget(const Expectation& expectation) {
  const auto seen = look(expectation.run_directory);
  const auto* const ended = seen ? std::get_if<Ended>(&*seen) : nullptr;
  if (ended != nullptr && judge(*ended, expectation).unfit_machine) return {};
  return collect(expectation.run_directory);
}

}  // namespace spotter::supervise

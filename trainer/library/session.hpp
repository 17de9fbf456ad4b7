// All of it together, for a training loop:
//
//   auto session = Session::open({});                  // $SPOTTER_CHECKPOINTS
//   auto restored = (*session)->restore();             // newest: none = from scratch
//   while (step < steps) {
//     train(++step);
//     (*session)->progress({.step = step});
//     if ((*session)->should_checkpoint()) (*session)->save(step, sources(), meta);
//     if ((*session)->should_stop()) return (*session)->leave() ? 75 : 1;
//   }
//   write the result, durably; (*session)->finished();
//
// Everything that concerns the agent does nothing where there is none. Calls come from one thread.
// A forked child (a loader of data) may destroy its copy, nothing else.
#pragma once

#include <sysexits.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "agent/base/result.hpp"
#include "trainer/library/checkpoint.hpp"
#include "trainer/library/link.hpp"
#include "trainer/library/mirror.hpp"
#include "trainer/library/saver.hpp"

namespace spotter::checkpoint {

// "Stopped on request, not finished; start me again."
inline constexpr int kStoppedStatus = EX_TEMPFAIL;  // 75

struct SessionOptions {
  std::filesystem::path directory;  // empty: $SPOTTER_CHECKPOINTS
  // Faster places that do not outlive the machine (local NVMe, /dev/shm), the fastest first. None:
  // those of $SPOTTER_CHECKPOINTS_FASTER, separated by colons. They keep the last one only.
  std::optional<std::vector<std::filesystem::path>> faster;
  Retention retention;
  // A copy of the newest far away (mirror.hpp): s3://bucket/prefix. None: $SPOTTER_CHECKPOINTS_S3.
  // It needs somebody who knows such places: s3_mirror.hpp, and libspotter.so by itself.
  std::optional<std::string> mirror;
  Mirror::Open open_mirror;
  // None: what the agent says, which knows the price and the danger (link.hpp), else
  // $SPOTTER_CHECKPOINT_EVERY (seconds), else ten minutes. Zero: only when the agent asks.
  std::optional<std::chrono::nanoseconds> every;
};

enum class Saved : std::uint8_t {
  Accepted,  // in memory; durable later
  Skipped,   // would not be durable in time: the last durable one has to do
};

class Session {
 public:
  // Fails when no directory is given, it cannot be written to, or another writer has it.
  static Result<std::unique_ptr<Session>> open(const SessionOptions& options);
  virtual ~Session() = default;  // waits for what was accepted

  // The newest checkpoint that verifies, of whatever place. Tells the agent where the run goes on.
  virtual Result<Restored> restore() = 0;

  virtual void progress(const Progress& now) = 0;
  virtual bool progress_due(std::uint64_t step, std::uint64_t steps_total) const = 0;
  virtual void status(std::string_view text) = 0;

  // To be asked after each step (some 100 ns; the notice is looked for 20 times a second). True:
  // save() now; the time from here to there counts as the checkpoint's, as begin_save() has it.
  virtual bool should_checkpoint() = 0;
  // Asked after save(). True: leave() now. After a notice it stays false for as long as there is
  // time to train.
  virtual bool should_stop() = 0;
  // Until the machine is gone; none without a notice.
  virtual std::optional<std::chrono::nanoseconds> deadline() = 0;

  // Is there time for so much, before the last checkpoint has to be made? Always, where nobody asks
  // to stop.
  virtual bool has_time(std::chrono::nanoseconds needed) = 0;

  // For a save() that should_checkpoint() did not ask for: to be called before the state is turned
  // into bytes. The training stands still from here on; without it that time is missing in what the
  // agent is told, and in how early the last checkpoint is begun.
  virtual void begin_save() = 0;
  // See Saver::save(). Fails also when an *earlier* one could not be written (nothing of this one
  // was taken; the next call tries anew). When it is time to stop that is no reason to refuse, and
  // nothing is copied again when `step` is what was accepted or restored last.
  virtual Result<Saved> save(std::uint64_t step, std::span<const Source> sources,
                             const nlohmann::json& meta = nlohmann::json::object(),
                             std::optional<double> metric = std::nullopt) = 0;
  // Waits until all that was accepted is durable.
  virtual Result<void> flush() = 0;
  // The newest that is durable in the place that outlives the machine.
  virtual std::optional<std::uint64_t> durable_step() const = 0;

  // flush(), and the last words to the agent; then exit with kStoppedStatus.
  virtual Result<void> leave() = 0;
  // Says that the result is durable, so that the agent may end the job. A failure is only that of
  // the flush() before it.
  virtual Result<void> finished() = 0;
};

}  // namespace spotter::checkpoint

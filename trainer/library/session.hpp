// All of the library, for a training loop such as that of trainer/README.md. Calls that concern the
// agent do nothing without one. All come from one thread. A forked child (a data loader) may only
// destroy its copy.
#pragma once

#include <sysexits.h>

#include <array>
#include <mutex>

#include "trainer/library/link.hpp"
#include "trainer/library/mirror.hpp"
#include "trainer/library/saver.hpp"

namespace spotter::checkpoint {

// The exit status for "stopped on request, not finished; start me again".
inline constexpr int kStoppedStatus = EX_TEMPFAIL;  // 75

struct SessionOptions {
  // Empty: $SPOTTER_CHECKPOINTS. If that is set, one outside the job's storage is refused.
  fs::path directory;
  // Faster places that are lost with the machine (local NVMe, /dev/shm), the fastest first. None:
  // $SPOTTER_CHECKPOINTS_FASTER, separated by colons. They keep only the last checkpoint.
  std::optional<std::vector<fs::path>> faster;
  Retention retention;
  // The place for a copy of the newest (mirror.hpp): s3://bucket/prefix. None:
  // $SPOTTER_CHECKPOINTS_S3. REQUIRES open_mirror: s3_mirror.hpp's; libspotter.so has its own.
  std::optional<std::string> mirror;
  Mirror::Open open_mirror;
  // None: the agent's advice, which depends on price and risk (link.hpp), else
  // $SPOTTER_CHECKPOINT_EVERY (seconds), else ten minutes. Zero: only when the agent asks.
  std::optional<std::chrono::nanoseconds> every;
  bool resumed_later = false;  // restore() does not report where the run resumes: resumed() does
};

enum class Saved : std::uint8_t {
  Accepted,  // in memory; durable later
  Skipped,   // would not be durable in time: the run resumes from the last durable one
};

// When to checkpoint and when to stop. Pure: no clock, no I/O; the caller passes the time.
//
// Without a notice: periodically, or when asked. After a notice with a time to be gone by: a
// checkpoint at once, so that the present state becomes durable; then training continues until a
// last checkpoint at the last safe moment, and it leaves:
//
//   last moment = gone by - 1.5 x (stall + write) - the longest recent step - 1 s to exit
//
// of the longest recent stall and write. Once the checkpoint of the notice is saved only the steps
// since then are at stake, and 1.2 x do.

using Duration = std::chrono::nanoseconds;
using Instant = std::chrono::nanoseconds;  // CLOCK_BOOTTIME

constexpr Duration kExit = std::chrono::seconds(1);  // interpreters and GPU drivers need it

// The maximum of the last few durations.
class Longest {
 public:
  void add(Duration one) { ring_[at_++ % ring_.size()] = one; }
  Duration get() const;

 private:
  std::array<Duration, 8> ring_{};
  std::size_t at_ = 0;
};

class Pace {
 public:
  // `every`: zero for "only when asked"; counts from `now`.
  Pace(Duration every, Instant now) : every_(every), last_save_(now) {}

  // --- input ---
  void stepped(Instant now);  // the end of a step
  void every(Duration every) { every_ = every; }
  void wanted(Instant after) { wanted_ = after; }  // a checkpoint made after this time
  // Asked to stop. `gone_by`: until then the machine can be used; none: stop as soon as possible.
  void stop(Instant now, std::optional<Instant> gone_by);
  void saved(Instant begun, Duration stall);
  void covered(Instant begun);          // nothing to save: it was just saved
  void skipped() { finished_ = true; }  // no time for another one
  // One copy is durable in one place, `took` after its writing began. Places are written one after
  // the other.
  void wrote(std::size_t place, Duration took);

  // --- results ---
  bool checkpoint_due(Instant now) const;
  bool stop_due(Instant now) const;
  // May other work of this duration be done before the last save?
  bool has_time(Instant now, Duration needed) const;
  // Would a save that begins now, after `pending` others, be durable in time?
  bool can_finish(Instant now, std::size_t pending) const;
  // Is a save that begins now the last one?
  bool is_last(Instant now) const { return gone_by_ && now >= last_moment(); }
  bool stopping() const { return stopping_; }

  // From the stop to the last checkpoint, less the stalls of those in between.
  std::optional<Duration> trained_in_window() const;

 private:
  Duration writing() const;  // one copy to all places
  Duration estimate() const { return stall_.get() + writing(); }
  Instant last_moment() const;

  Duration every_;
  Instant last_save_;
  std::optional<Instant> last_step_;
  std::optional<Instant> wanted_;
  bool stopping_ = false;
  bool secured_ = false;   // saved since the stop
  bool finished_ = false;  // saved for the last time, or no time left
  std::optional<Instant> gone_by_;
  Instant stopped_at_{};
  Duration stalled_{};
  std::optional<Instant> last_begun_;
  Longest step_, stall_;
  std::vector<Longest> write_;  // of each place
};

class Session {
 public:
  // Fails when there is no directory, it cannot be written, is outside the job's storage, or
  // another writer has it.
  static Result<std::unique_ptr<Session>> open(const SessionOptions& options);
  Session(const Session&) = delete;  // its writing thread knows it
  Session& operator=(const Session&) = delete;
  ~Session() = default;  // waits for accepted checkpoints

  // The newest checkpoint that verifies, of any place. Reports to the agent where the run resumes.
  Result<Restored> restore();

  void progress(const Progress& now) { link_.progress(now); }
  bool progress_due(std::uint64_t step, std::uint64_t steps_total) const {
    return link_.progress_due(step, steps_total);
  }
  void status(std::string_view text) { link_.status(text); }

  // To be called after each step (takes some 100 ns; looks for a notice 20 times a second). True:
  // call save() now; the time in between counts as the checkpoint's, as after begin_save().
  bool should_checkpoint();
  // To be called after save(). True: call leave() now. After a notice it stays false while there is
  // time to train.
  bool should_stop();
  // The time until the machine is gone; none: there is no notice.
  std::optional<std::chrono::nanoseconds> deadline();

  // True: work of this duration can be done before the last checkpoint, or nobody asks to stop.
  bool has_time(std::chrono::nanoseconds needed);

  // To be called for a save() without should_checkpoint(), before the state is turned into bytes.
  // Training pauses from here on; without this call that time is missing in the report to the
  // agent, and the last checkpoint begins too late.
  void begin_save();
  // See Saver::save(). Also fails when an *earlier* one could not be written (this one is then not
  // taken; the next call tries again). While stopping it does not fail for that, and copies nothing
  // if `step` was the last accepted or restored one.
  Result<Saved> save(std::uint64_t step, std::span<const Source> sources,
                     const nlohmann::json& meta = nlohmann::json::object(),
                     std::optional<double> metric = std::nullopt);
  // Before a save() of this step: Saver::place(). Null: there is nothing to fetch, as that save()
  // will copy nothing.
  Result<char*> place(std::uint64_t step, std::uint64_t bytes);
  // Waits until all accepted ones are durable.
  Result<void> flush() { return saver_->flush(); }

  // Reports to the agent that the run resumes from this step; 0: from scratch. Takes, with the next
  // ones, the place of restore() and save() for checkpoints in a format of the program's own.
  void resumed(std::uint64_t step);
  // After should_checkpoint(), where a save takes long: false: it would not be durable in time, the
  // last durable one has to do, and should_stop() is true.
  bool can_save();
  // The file or folder `path` is the complete checkpoint of `step`: makes it durable, and reports
  // it. The stall is the time since should_checkpoint() or begin_save(). Fails when it is outside
  // the job's storage, cannot be read or made durable, and as is_writer().
  Result<void> saved(std::uint64_t step, const fs::path& path);

  // Fails when another machine of the gang saves there since (writer.hpp): for what is renamed
  // to a checkpoint's name before saved().
  Result<void> is_writer() const { return saver_->is_writer(); }

  // The newest step that is durable in the last place, which outlives the machine.
  std::optional<std::uint64_t> durable_step() const;

  // Calls flush() and sends the last messages to the agent; then exit with kStoppedStatus.
  Result<void> leave();
  // Reports that the result is durable, so that the agent may end the job. Fails only if the
  // flush() before that fails.
  Result<void> finished();

 private:
  explicit Session(const SessionOptions& options);
  Result<void> begin(const SessionOptions& options);
  void look(Instant at);
  bool stopping() const;
  // The end of a save of this step without a copy; none: the copy is to be made.
  std::optional<Saved> settle(std::uint64_t step, Instant begun);
  // The copy of this step is, or will be, durable in the last place.
  bool is_safe(std::uint64_t step) const;
  void became_durable(const Durable& durable);
  Result<void> open_mirror(const SessionOptions& options);
  Result<Restored> or_from_mirror(Result<Restored> local);
  void say(const std::string& trouble);

  Link link_;
  bool advised_;  // the agent's advice is used
  bool resumed_later_, restored_once_ = false;
  mutable std::mutex mutex_;  // for pace_ and durable_step_, which the writing thread changes, too
  Pace pace_;
  std::optional<Instant> looked_;
  std::optional<Instant> begun_;  // training has paused since then, for the next save()
  std::optional<Notice> notice_;
  std::optional<std::uint64_t> durable_step_;
  std::optional<std::uint64_t> accepted_step_;  // the last one; its write may still fail
  std::optional<std::pair<std::uint64_t, std::optional<Saved>>> settled_;  // by place()
  std::uint64_t restored_bytes_ = 0;  // memory for as many is made once the first step is done
  struct Durably {
    std::uint64_t step;
    fs::path path;
  };
  std::optional<Durably> restored_;  // from the last place
  std::vector<fs::path> places_;     // the last one outlives the machine
  std::unique_ptr<Mirror> mirror_;   // may be null
  std::unique_ptr<Saver> saver_;     // last: its thread must end before the other members
};

}  // namespace spotter::checkpoint

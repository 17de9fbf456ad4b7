// Keeps one checkpoint more than its trainer does: the best so far by a metric, as a copy in
// .spotter/best that has the recorded bytes.
//
// A checkpoint whose name says a step (step_in() in record.hpp) gets the value that was reported
// for that step; any other gets the last one that was reported until a moment after it was
// finished. Only what this run of the trainer reported counts: an older value is another state's.
#pragma once

#include "agent/guard/copying.hpp"
#include "agent/guard/keeper.hpp"
#include "agent/supervise/run_directory.hpp"

namespace spotter::guard {

inline constexpr const char* best_directory = "best";
inline constexpr const char* best_name = "best.json";

struct BestRule {
  std::string metric;
  bool largest_is_best = true;
};

// The content of .spotter/best.json. Its last member is the sum of all before it.
struct BestRecord {
  static constexpr std::string_view keys = "metric! mode! value! step! name! kept!";
  std::string metric, mode;  // the rule's; `max` or `min`
  double value = 0;
  std::uint64_t step = 0;  // for which it was reported
  std::string name;        // of the checkpoint, relative to its directory
  std::string kept;        // of the copy in .spotter/best
  friend bool operator==(const BestRecord&, const BestRecord&) = default;
};
std::string encode(const BestRecord& record);
std::optional<BestRecord> decode_best(std::string_view bytes);  // none: anything else

class Best {
 public:
  using Values = std::function<supervise::ReportedValues()>;
  using Clock = std::chrono::system_clock;

  struct Word {
    std::string text;
    bool wrong = true;  // no copy could be made
  };

  // A value may be reported so long after its checkpoint was finished: a log is read twice a
  // second, later on a busy machine.
  static constexpr std::chrono::milliseconds moment{2000};

  // No rule: no function does anything. `values` are those that are known now; what was reported
  // before `began`, when the trainer was started, does not count. Offers what was finished since:
  // a guard may have died before it was looked at.
  // REQUIRES: the keeper outlives this.
  Best(const Keeper& keeper, std::optional<BestRule> rule, Values values, Clock::time_point began);

  // This checkpoint was recorded; it was finished then.
  void offer(const std::string& name, Clock::time_point finished);
  // Until the next call of look() has something to do; none: nothing is offered.
  std::optional<std::chrono::milliseconds> wait(Clock::time_point now) const;
  // Copies what was offered, a moment ago or earlier (`all`: all of it), and is better than the
  // best so far. Returns the words for a person to read. A copy may take minutes: if `stopped` ends
  // it, its checkpoint is offered still.
  std::vector<Word> look(Clock::time_point now, bool all = false, const Stopped& stopped = {});
  bool is_busy() const { return !offered_.empty(); }

 private:
  struct Offered {
    std::string name;
    Clock::time_point finished;
  };
  bool has_weights(const std::string& name) const;
  std::optional<supervise::ReportedValue> value_of(const Offered& one) const;
  std::optional<Word> consider(const Offered& one, const Stopped& stopped);
  std::optional<Word> trouble(const std::string& words);
  // `before`: the best so far.
  Result<void> keep(const std::vector<Part>& parts, const BestRecord& record,
                    const std::optional<BestRecord>& before, const Stopped& stopped) const;
  Result<void> copy(const std::vector<Part>& parts, const std::string& name,
                    const SafeDirectory& to, const std::string& as, const Stopped& stopped) const;

  const Keeper& keeper_;
  std::optional<BestRule> rule_;
  Values values_;
  Clock::time_point began_;
  std::vector<Offered> offered_;  // in the order in which they were finished
  std::string last_trouble_;
};

}  // namespace spotter::guard

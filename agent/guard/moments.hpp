// Finds the moments at which the checkpoint directory is as its script means to leave it: never
// while a file is open, and never between two files of one save: `model_10.pt` may be closed
// seconds before `optim_10.pt` is begun. It learns from the run itself what belongs to one save. No
// I/O.
//
// A *set* is what one save writes. It ends where the script begins the next: it writes a name again
// that it had finished, or one that differs only in its numbers. From then on the shapes of its
// names are known (`model_#.pt`, `checkpoint-#/rng_state_#.pth` twice), and a later set is whole as
// soon as each of them is there. How often each file was finished says the same without knowing
// where a set ends: what was written as often as another one until now is written once more, too.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace spotter::guard {

// The name with each number in it as `#`.
std::string shape_of(const std::string& name);
std::vector<std::string> numbers_in(const std::string& name);

// The number of times that each shape is in a set.
using Shapes = std::map<std::string, std::uint64_t>;

// Do these names lack one of the shapes that each of the usual sets has, while they have another of
// them?
bool lacks_usual(const std::deque<Shapes>& usual, const std::vector<std::string>& names);

// The files that a person says are written in one save: patterns (fnmatch(3)) of names relative to
// the directory, separated by spaces, in which `{step}` is the number of the save. Empty: nothing
// is said.
class SaidSet {
 public:
  explicit SaidSet(const std::string& patterns = {});
  struct Match {
    std::size_t pattern = 0;
    std::string step;  // "": its pattern has none
  };
  std::optional<Match> match(const std::string& name) const;  // none: of no set
  std::size_t size() const { return patterns_.size(); }
  bool is_countable() const;  // each pattern names one file of a save

 private:
  std::vector<std::string> patterns_;
};

class Moments {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using Pause = std::chrono::milliseconds;

  // `usual`: what sets of earlier runs had. `said`: what each has at least.
  explicit Moments(std::deque<Shapes> usual = {}, SaidSet said = SaidSet())
      : usual_(std::move(usual)), said_(std::move(said)) {}
  Moments(Moments&&) = default;  // State and Written point into its maps
  Moments& operator=(Moments&&) = default;

  // Something happened to the file; `closed`: its writer is done with it. A companion of the
  // checkpoints begins no set by its number (`rng_1.json` behind `rng_0.json`), nor while a
  // checkpoint is written. `grew`: it was finished, and is written on.
  void wrote(const std::string& name, bool closed, Time now, bool companion = false,
             bool grew = false);
  // `to_be_renewed`: a checkpoint that got another name (`ckpt.1.pt` for `ckpt.pt`), so that the
  // next one takes its place: nothing is whole until that is written, or a save is that lacks it.
  void removed(const std::string& name, Time now, bool to_be_renewed = false);
  // An earlier save's file got this name, which has another number: ckpt.2 <- ckpt.1.
  void rotates(const std::string& name) {
    Kind& kind = kinds_[shape_of(name)];
    kind.over = !kind.is_series();
  }
  // It is of no set: a log, say.
  void forget(const std::string& name);

  // After how long the directory may be looked at, if nothing happens until then; none: there is
  // nothing new.
  std::optional<Pause> wait(Time now) const;
  // Names that belong to a set which was begun after the one to be looked at.
  const std::set<std::string>& in_flux() const { return in_flux_; }
  // A generation was made of what has happened, but for in_flux().
  void captured();

  // No file that sets usually have is missing in this one; or it has none of these.
  bool is_complete() const;
  // The same; while nothing is known, that all was captured.
  bool is_sure() const;
  // It is of the current set, or of an earlier one that lost a file to that before it was captured;
  // another earlier set is whole if each of its files is.
  bool is_current(const std::string& name) const;
  // It is of a set that captured() ends.
  bool is_of_captured(const std::string& name) const;
  // Its writer is done with it; nothing has happened to it at all: false.
  bool is_closed(const std::string& name) const;

  bool knows(const std::string& name) const;  // it is of a set

  // It was open all along while two other sets were written: a log.
  bool grows(const std::string& name) const;
  // Files that nothing happened to for so long, and that are not known to be closed.
  std::vector<std::string> open_for(Pause pause, Time now) const;
  void close(const std::string& name);
  // The usual sets, for the next run; the first one as far as it was captured.
  std::deque<Shapes> learned() const;

 private:
  struct Kind {              // names of one shape
    int names = 0;           // finished
    std::uint64_t turn = 0;  // of the newest
    bool over = false;       // they are written over
    bool is_series() const { return names > 1 && !over; }
  };
  struct Written {  // a name that was finished
    int times = 0;
    std::uint64_t turn = 0;  // the last time
    bool at_once = false;    // next to the time before
    const Kind* kind = nullptr;
    bool best = false;  // a best model, so its name
  };
  struct State {
    bool closed = false;
    bool awaited = false;   // not there, to be renewed
    bool carried = false;   // awaited, and not written in the set before
    bool goes_on = false;   // it is written on, in parts
    bool captured = false;  // as it is
    Time at{};
    Time since{};  // it was finished, but for parts
    const Kind* kind = nullptr;
    const Written* finished = nullptr;  // in this set
  };

  bool is_written_on(const std::pair<const std::string, State>& one, bool grew, Time now);
  bool is_another_ranks(const std::string& name, const Kind& kind, Time now) const;
  bool awaits_renewed() const;
  bool awaits_best() const;
  bool are_in_parts() const;
  bool begins(const std::string& name, const Kind& kind) const;
  bool is_first_finished(const std::string& name) const;
  bool begins_as_said(const std::string& name) const;
  bool has_all_said() const;
  void miss(const std::string& name);
  void begin_set(const std::string& first);
  const Written& finish(const std::string& name, Kind& kind);
  bool is_next_leader(const std::string& name, const Kind& kind);
  void learn_folder(const std::string& name);
  int round_of(const std::string& name) const;
  bool lags() const;
  bool is_even() const;
  bool has_all() const;
  Shapes needed() const;

  std::deque<Shapes> usual_;            // of the last sets, the newest last
  std::deque<Shapes> captured_shapes_;  // of what was captured last, at rest: one or none
  SaidSet said_;
  std::map<std::string, State> current_;  // names of the set that is written
  std::map<std::string, bool> before_;  // those of the sets before that were not captured: closed?
  std::map<std::string, int> open_;     // for how many sets
  std::string first_;                   // of these
  std::set<std::string> in_flux_;       // also what was removed since
  std::set<std::string> burst_;         // of current_: what came since the last rest
  std::map<std::string, Written> written_;
  std::map<std::string, Kind> kinds_;            // by shape
  std::map<std::string, std::string> numbered_;  // by shape, a folder; "": there are others
  std::uint64_t turn_ = 0;
  const Kind* leader_ = nullptr;   // of the first file of the run
  std::string leads_;              // the last of its kind: a file, or a folder
  int misled_ = 0;                 // sets in a row that ended although a file was awaited
  bool counts_ = true;             // how often each was written says something
  std::set<std::string> in_vain_;  // names that were awaited once, and did not come
  std::set<std::string> stays_;    // names that made room for the next once they had stayed
  mutable std::optional<Time> whole_since_;  // a set which a best model may follow
  // Files that are closed behind each of their parts; false: for so long that they are logs.
  std::map<std::string, bool> parts_;
  bool in_burst_ = false;  // whether these begin a set is not known yet
  Time last_{};
  bool new_ = false;       // something happened since captured()
  bool captured_ = false;  // the set as it is now, or a part of it, was looked at
  bool due_ = false;       // a set ended that was not
  bool broken_ = false;    // one of its files is gone or written over: there is none that is due
  bool stripped_ = false;  // a usual file of it was removed after that
  bool lost_ = false;      // a usual file of the current set was removed before it was captured
};

}  // namespace spotter::guard

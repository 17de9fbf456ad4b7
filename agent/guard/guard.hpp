// What happens to the files of a folder and all its subfolders, by inotify(7).
#pragma once

#include <sys/inotify.h>

#include "agent/guard/best.hpp"
#include "agent/guard/moments.hpp"

namespace spotter::guard {

struct Change {
  enum class Kind : std::uint8_t {
    Closed,    // by a writer, or moved here, or a link that was made
    Modified,  // written to
    Removed,   // or moved away
    Folders,   // a folder came, went or moved, or events were lost: watch() and look at all again
  };
  Kind kind = Kind::Closed;
  std::string name;      // of the file, relative to the place's directory; of Folders empty
  bool renamed = false;  // of Removed: it got another name
};

class Changes {
 public:
  // REQUIRES: `place` outlives this.
  explicit Changes(const Place& place) : place_(place) {}

  // Watches every folder that there is now, and answers what is in them: a file that was finished
  // before its folder was watched gives no event. The folders that changed last come first, where
  // there are more than 4096.
  Result<Listing> watch();

  // The changes since, in order, without waiting.
  std::vector<Change> read();

  void stop() { inotify_ = Descriptor(); }  // nothing happens any more

  int descriptor() const { return inotify_.get(); }  // readable when read() has something

 private:
  Result<void> watch_folder(const std::string& folder);
  bool is_link(const std::string& name) const;
  void take(const inotify_event& event, const char* name, std::vector<Change>& changes) const;

  const Place& place_;
  Descriptor inotify_;
  std::map<int, std::string> folders_;  // by watch
};

// Watches over the checkpoint files of a trainer that knows nothing of Spotter, beside it, from
// its start to its end: `spotter guard`, started by `spotter supervise` before the trainer, which
// also reports that end to it.
//
// stdin:  one line when the trainer has ended: `finished` (exit status 0), `stopped` (75), `failed`
//         (another, and nobody had asked it to stop) or `killed`; then nothing writes any more. The
//         end of the stream alone: the supervisor is dead, and we leave at once.
// stdout: one line: `ready`, when the trainer may start; else why not. At the end `doubted` where a
//         start failed on the newest checkpoint, and the one before is there in its place.

// A message to the agent. With a path: this checkpoint is finished and durable.
struct Saying {
  std::string words;
  bool wrong = true;  // else a person need not act on the words
  std::string path;
  Finished finished{};  // which it is
};

// The trainer's processes that ended since this was asked last, or do so just now. The kernel marks
// a process as exiting before it closes its files, so a writer's death is seen with the close it
// caused, if it is looked for after that.
struct Deaths {
  bool some = false;
  bool all = false;  // none is left: the trainer's end is reported then, or when it can be
};
using LookForDeaths = std::function<Deaths()>;
// Can every process of the trainer that has this file open for writing only add to it (O_APPEND)?
using OnlyAppends = std::function<bool(const struct stat&)>;

class Guard {
 public:
  using Say = std::function<void(const Saying&)>;

  using Now = std::function<Moments::Time()>;

  // REQUIRES: the keeper outlives this.
  // `reports`: does the trainer report its checkpoints itself?
  Guard(
      Keeper& keeper, LookForDeaths deaths, Say say, Now now = &std::chrono::steady_clock::now,
      SaidSet set = SaidSet(), std::function<bool()> reports = [] { return false; },
      OnlyAppends appends = [](const struct stat&) { return false; })
      : keeper_(keeper),
        changes_(keeper.place()),
        deaths_(std::move(deaths)),
        say_(std::move(say)),
        now_(std::move(now)),
        reports_(std::move(reports)),
        appends_(std::move(appends)),
        moments_(keeper.record().usual, std::move(set)),
        began_(now_()) {}

  // From here on nothing is missed. Files that are not whole are moved aside first, unless a
  // trainer runs already (`again`: the guard before us died).
  Result<void> begin(bool again);

  // Takes what has happened; answers after how long to come again though nothing happens.
  std::chrono::milliseconds look();
  int descriptor() const { return changes_.descriptor(); }

  bool is_idle() const { return idle_; }  // Listing::left_alone

  // The trainer has ended, and all its processes. `progressed`: it reported steps. True: a start
  // failed on the newest checkpoint, and the one before is there in its place.
  bool end(End how, bool progressed);

 private:
  void take_changes();
  void take_change(const Change& change, bool died);
  void look_at_all(bool died);
  void note(const std::string& name, bool closed, bool died, Role role, bool grew = false);
  void remember_as_closed(const Found& one, bool is_file);
  std::string end_of(const Found& one) const;
  void close_what_nobody_writes();
  bool is_appended_to(const std::string& name);
  bool is_held(const std::string& name) const;
  bool is_of_saves(const std::string& name, Change::Kind kind);
  bool is_spoilt(const Capture& captured, bool of_companions);
  void heal(const std::string& name, bool removed);
  void all_is_captured();
  void is_of_none(const std::string& name);
  bool was_open(const std::string& name) const;
  void wait_for(const std::string& name);
  void learn_temporary(const std::string& shape);
  bool is_temporary(const std::string& name) const;
  bool somebody_died();
  std::optional<std::chrono::milliseconds> wait_for_companions() const;
  void capture();
  void say_finished(const Finished& one);
  void say_settled(const Settled& settled);
  void leave_alone(const std::string& why);
  bool is_left();
  void complain(const std::string& words);

  Keeper& keeper_;
  Changes changes_;
  LookForDeaths deaths_;
  Say say_;
  Now now_;
  std::function<bool()> reports_;
  OnlyAppends appends_;
  Listing listing_;  // when the folders were looked at last
  struct Closed : Found {
    std::string end;  // its last bytes
  };
  std::map<std::string, Closed> closed_;  // each file as it was when its writer closed it
  Moments moments_;
  // Files that were closed as somebody died, until the trainer is seen to go on.
  std::map<std::string, Moments::Time> died_at_;
  std::optional<Moments::Time> last_death_;
  std::set<std::string> logs_;                  // that are, or were, open to be added to
  std::map<std::string, Moments::Time> asked_;  // whether it is
  Row moved_;                                   // recorded, and got another name just now
  std::set<std::string> temporary_;             // shapes of names that files are renamed from
  // Companions that were closed since a member was, or since all was captured, and how often.
  std::map<std::string, int> beside_;
  std::set<std::string> trackers_;    // companions that name a checkpoint
  std::set<std::string> of_no_save_;  // companions that were written alone, or all the time
  Moments::Time captured_at_{};
  bool news_ = false;                // something happened to a member since all was captured
  std::map<std::string, int> torn_;  // by shape: saves in a row of which such a file was torn
  std::set<std::string> spoilt_;     // files of such a save, which nothing has happened to since
  struct Held {
    std::uint64_t bytes = 0;
    Moments::Time since{};
  };
  std::map<std::string, Held> held_;         // open, and hindering, while nothing happens to them
  std::optional<Moments::Time> companions_;  // when one was written, and not recorded since
  std::chrono::milliseconds busy_{0};        // how long somebody who writes is waited for
  Moments::Time last_companions_{};
  std::set<std::string> touched_;  // since capture() began
  Moments::Time not_before_;       // after what could not be captured
  Moments::Time began_;
  bool said_behind_ = false;
  bool idle_ = false;  // Listing::left_alone
  std::string last_complaint_;
};

// Everything of the command: until the line on stdin.
struct Options {
  Where where;
  std::string socket;  // of the agent, for datagrams (wire/datagram.hpp)
  bool again = false;
  std::vector<std::string> copying;  // what copies folders to S3 (run.hpp); empty: nothing
  std::optional<BestRule> best;      // keeps the best checkpoint, too
  std::string set;                   // SaidSet
};
int run(const Options& options);

}  // namespace spotter::guard

// N machines of a gang on virtual time: the real core, and a model of torchrun, of the ranks that
// train and save together, of their network, of the share and of S3. All that happens is drawn from
// one seed. The invariants are judged at each write and each commit.
#pragma once

#include <memory>
#include <random>

#include "agent/gang/participant.hpp"
#include "tests/gang/simulator/bucket.hpp"
#include "tests/gang/simulator/home.hpp"

namespace spotter::gang {

// The rates from which the trouble of a life is drawn.
struct Trouble {
  Duration lasts{};                             // from its beginning
  double notices = 0, kills = 0, pairs = 0;     // a minute
  double leaders = 0, saving = 0, meeting = 0;  // kills of the leader, while saving, ...
  double outages = 0, cuts = 0;                 // of S3; of one machine's way to it
  double partitions = 0, pauses = 0;            // between members; of a machine
  double crashes = 0, hangs = 0;                // of the trainer
  double relaunches = 0, deaf = 0;              // of who waits: its torchrun ends; S3 is silent
  double lost_requests = 0, lost_answers = 0;   // of all
  double slow = 0, late = 0;                    // answers; writes done after all
  double arrivals = 0;                          // a minute, in the place of who is gone
  std::size_t spare = 0;                        // machines more than the gang's size
  bool on_fleet = false;                        // Settings::replaced
  bool on_gpus = false;    // who waits for one that hangs looks the same: stall.hpp
  bool wears_out = false;  // in each round, after a commit, the first machine's trainer hangs
};

// The truth by which the record is judged.
struct Truth {
  // Since the newest commit: the rounds that ended so.
  std::set<std::uint64_t> failed{}, torn{}, apart{};
  // All rounds of which a machine was gone before its workers had ended; all that have committed.
  std::set<std::uint64_t> lost{}, committed{};
  // Machines that were given back, and rounds that committed, since one fell apart or hung.
  std::size_t given_back = 0, sound = 0;
  std::map<std::uint64_t, std::set<std::string>> bad{};  // whose workers hung, or never began
  std::set<std::uint64_t> quarrels{};                    // all rounds that were torn or apart
  // The rounds for whose end a machine was the reason: a rank of it hung, or another missed it.
  std::map<std::string, std::set<std::uint64_t>> reasons{};
  std::set<std::string> trained{};  // members of rounds that have committed
};

struct SimMachine {
  // Its workers: torchrun starts and asks; waits for its place; connects to the others; opens the
  // home; trains; writes its shard; has it written; of rank 0: all have, and it is about to commit.
  enum class Does : std::uint8_t {
    Starts,
    Asks,
    Meets,
    Opens,
    Trains,
    Saves,
    Saved,
    Commits,
    Done
  };
  std::string id;
  std::unique_ptr<Participant> self;
  Does does = Does::Starts;
  Time next{};  // it goes on then
  std::uint16_t port = 0;
  std::optional<Place> place{};
  std::uint64_t took = 0;  // the last round of which it has a place
  Process process = 0;
  std::int64_t step = -1;
  std::size_t history = 0;
  bool stops = false;          // once it has saved
  std::optional<Time> torn{};  // its workers see by then that another is gone
  std::optional<Time> hangs{};
  bool only_waits = false;     // for one that hangs, and looks the same
  std::optional<Time> goes{};  // torchrun, which waited in vain
  Last last{};
  // The machine.
  Time dies = Time::max();
  Time paused_at{}, paused_until{}, cut_until{};
  bool noticed = false;
  // The request to S3 under way.
  std::optional<Answer> answer{};
  std::optional<Time> answered_at{};  // none: none is under way
  Time accepted{};                    // the last of its writes that was done
  std::optional<Time> older_since{};  // its workers are of an earlier round than the newest
  std::optional<Time> over_since{};   // ... of one that it knows to be over

  bool works() const { return does >= Does::Opens && does <= Does::Commits; }
};

class SimWorld : Watcher {
 public:
  SimWorld(std::uint64_t seed, bool talks);
  virtual ~SimWorld() = default;
  SimWorld(const SimWorld&) = delete;
  SimWorld& operator=(const SimWorld&) = delete;

  // The first thing that was broken; empty: the life ended well.
  std::string live();
  std::string summary() const;  // how it ended: done, failed
  Time now() const { return now_; }
  // The number of times that each kind of trouble, and of end, came.
  const std::map<std::string, std::uint64_t>& tally() const { return tally_; }

 protected:  // replay.cpp has machines that come and go, and paces, of its own
  // Nothing is drawn but how long things take; nobody comes of its own accord.
  SimWorld(std::uint64_t seed, Settings settings, std::int64_t steps, std::int64_t every);
  virtual void happen();
  // When the ranks of a round have done the step that they begin now; what it takes each to write
  // its shard, and rank 0 to open the home.
  virtual Time step_ends(std::uint64_t round, std::size_t ranks);
  virtual Duration save_takes();
  virtual Duration opening_takes();

  using Machines = std::vector<std::unique_ptr<SimMachine>>;

  // world.cpp: the core's part
  void turn();
  void talk(SimMachine& machine);
  void work(SimMachine& machine);
  void ask_for_round(SimMachine& machine);
  void end_workers(SimMachine& machine, Last last, Duration until_it_asks);
  void bury();

  // judge.cpp
  void note_end(const SimMachine& machine, const Last& last);
  void note_commit(std::uint64_t round);
  void changed(const std::optional<Record>& before, const Record& after,
               const std::string& by) override;
  void note_round(const Record& before, const Record& after);
  void note_absence(const Record& before);
  std::size_t blamed(const std::set<std::uint64_t>& rounds) const;
  void judge_given_back(const std::optional<Record>& before, const Record& after);
  void judge_blame(const std::string& id, bool given_back);
  void judge_place(const SimMachine& machine);
  void judge_end(const Record& record);
  void judge_rounds();
  void judge_workers();

  // training.cpp: what the ranks of a round do together
  void meet(SimMachine& machine);
  void open(SimMachine& machine);
  bool serves_holder() const;
  void train(std::uint64_t round);
  std::vector<SimMachine*> together(std::uint64_t round, bool& whole);
  void step(std::uint64_t round, const std::vector<SimMachine*>& ranks);
  bool trouble_of_trainer(const std::vector<SimMachine*>& ranks);
  void save(SimMachine& machine);
  void commit(SimMachine& leader);
  void go_on(SimMachine& machine);
  void finish(const std::vector<SimMachine*>& ranks);

  // faults.cpp
  void draw_trouble();
  void hit(SimMachine& machine, const char* why);
  void notice(SimMachine& machine);
  void draw_kill(double a_minute, const char* why, bool (SimWorld::*fits)(const SimMachine&) const);
  bool is_any(const SimMachine&) const { return true; }
  bool is_leader(const SimMachine& machine) const;
  bool is_saving(const SimMachine& machine) const;
  bool is_meeting(const SimMachine& machine) const;
  void refill();
  void end_trouble();
  void start_again();

  bool likely(double share) { return std::uniform_real_distribution<>(0, 1)(chance_) < share; }
  bool in_this_turn(double a_minute);
  Duration up_to(Duration most) {
    return Duration(
        static_cast<std::int64_t>(chance_() % static_cast<std::uint64_t>(most.count() + 1)));
  }
  SimMachine* find(const std::string& id) const;
  SimMachine& arrive();
  bool runs(const SimMachine& machine) const {
    return now_ < machine.dies && now_ >= machine.paused_until;
  }
  bool linked(const std::string& one, const std::string& other) const;
  void say(const std::string& words);
  void count(const char* kind) { ++tally_[kind]; }

  static constexpr Duration tick_{250};
  std::mt19937_64 chance_;
  bool talks_;
  Time now_{Duration(1'000'000)}, begun_ = now_, troubled_until_{};
  Settings settings_;
  Trouble trouble_;
  std::vector<std::string> broken_;
  Home home_{broken_};
  SimBucket bucket_{*this};
  Machines machines_;
  std::size_t arrived_ = 0;
  Process processes_ = 0;
  Time down_until_{};
  std::map<std::pair<std::string, std::string>, Time> parted_;
  std::map<std::uint64_t, std::vector<std::string>> rounds_;
  std::map<std::uint64_t, Time> next_step_;             // of a round
  std::map<std::uint64_t, std::set<std::string>> met_;  // in the store of its leader
  // Writes that are done after their sender gave up.
  struct Late {
    Time at;
    Ask ask;
    std::string by;
  };
  std::vector<Late> late_;
  Duration lock_lease_{};         // for so long a server keeps the lock of a machine that is gone
  std::map<Process, Time> dead_;  // whose machine is gone, since when
  std::int64_t steps_ = 0, every_ = 1;
  Truth truth_;
  std::map<std::string, std::uint64_t> tally_;
};

}  // namespace spotter::gang

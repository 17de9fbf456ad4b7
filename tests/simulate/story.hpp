// A run with scripted faults at counted points, in the place of those that the seed draws. And the
// other way round: a run with drawn faults, played again without some of them.
//
// A point is a place at which an agent can be lost: before an effect is carried out, after it;
// before an event (an answer, or one that is sensed) is delivered, and after one that asks for
// nothing more. (After any other event comes the point before its first effect.) Points are
// numbered from 1 through the whole run, whichever instance they belong to. Progress without a
// checkpoint is no point: nothing follows from it.
#pragma once

#include <set>

#include "tests/simulate/model.hpp"

namespace spotter::simulate {

enum class Side : std::uint8_t { BeforeEffect, AfterEffect, BeforeEvent, AfterEvent };

using Action = std::function<void()>;
struct Appointment {
  Time at;
  std::uint64_t number = 0;
  Action action;
  bool operator<(const Appointment& other) const {
    return at != other.at ? at > other.at : number > other.number;
  }
};

struct ScriptedFault {
  enum class Kind : std::uint8_t {
    KillInstance,
    KillAgent,    // it is started again a few seconds later
    Notice,       // two minutes
    ShortNotice,  // five seconds
    LoseAnswer,   // of the call that was just carried out
    Overlap,      // the target becomes two
    CrashTrainer,
    OthersStop,   // as needrestart and an administrator do
    ShareSilent,  // for Script::silence
  };
  Kind kind = Kind::KillInstance;
  // Happens at the point of this number; or, when it is 0, at the point with this side and name
  // that is met `times` times.
  std::uint64_t point = 0;
  Side side = Side::AfterEffect;
  std::string name;  // of the effect or event: decide::name()
  std::uint64_t times = 1;
};

struct Script {
  enum class Replacement : std::uint8_t { SameZone, OtherZone, AnyZone };
  Replacement replacement = Replacement::SameZone;
  Work work;
  bool has_code = false;
  std::uint32_t attempts = 50;  // without progress, until the job is given up
  std::vector<ScriptedFault> faults;
  int gpus = 0;               // that the trainer needs; the first machines lack some
  std::uint64_t lacking = 0;  // so many machines
  bool data = false;          // the job has a volume of data
  bool prepare = false;       // `spotter prepare` begins with the fleet's first instance
  bool fence = false;         // the job has one
  bool share = false;         // the job's storage is a share
  bool bucket = false;        // or a bucket
  bool once = false;          // and somebody else starts it again: `spotter run`
  Duration silence = std::chrono::seconds(60);
};

// Selects among the faults that the seed draws. Timed faults are numbered 1, 2, ..., the faults of
// single calls and works 10001, 10002, ...
struct Choice {
  bool only = false;  // those of `numbers`; else all but those
  std::set<std::uint64_t> numbers;
  bool fence = false;   // the job has one, and S3 its faults
  bool bucket = false;  // the job's home is in one, and S3 has its faults
  bool allows(std::uint64_t number) const { return only == (numbers.count(number) != 0); }
};
constexpr std::uint64_t kFirstSingleFault = 10'001;

struct Verdict {
  std::uint64_t seed = 0;
  std::string broken;  // empty: nothing
  std::string outcome;
  Duration took{0};
  std::uint64_t steps = 0;      // of the core
  std::uint64_t instances = 0;  // that ran
  std::uint64_t faults = 0;
  std::uint64_t points = 0;  // at which an agent could have been lost (story.hpp)
};

}  // namespace spotter::simulate

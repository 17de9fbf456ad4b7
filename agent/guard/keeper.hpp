// Keeps a trainer's checkpoints in generations (record.hpp): each durable, known by its sums, and
// its contents kept beside, so that it can be put back whole.
//
// A content is kept as a clone where the file system can (xfs: no byte is copied), else by another
// name of the same file where its own is written only once (a series that is numbered), else as a
// copy, where there is room. Files that are put away lie in `torn`, those of one moment together.
#pragma once

#include <chrono>
#include <functional>

#include "agent/guard/place.hpp"
#include "agent/guard/record.hpp"

namespace spotter::guard {

// Why a file, or a folder, is not taken for a finished checkpoint.

struct Refusal {
  enum class Why : std::uint8_t {
    Gone,
    Busy,    // somebody writes to it
    Torn,    // its own format says so
    Failed,  // it cannot be read, or not be made durable
  };
  Why why = Why::Gone;
  std::string words;  // for the journal, of Torn and Failed
};

// Decides what becomes of the difference between the directory and its newest generation, while no
// trainer runs. Pure: the caller supplies the evidence on each file.

// The way in which the trainer ended, as far as it is known.
enum class End : std::uint8_t {
  Unwatched,  // none ran since: a person changed what is different
  Finished,   // exit status 0
  Stopped,    // 75, as libspotter does it: it had been asked to stop, and did
  Failed,     // by itself, with another status
  Killed,
  Lost,  // nobody saw it: the machine was lost, or the guard
};

enum class Proof : std::uint8_t {
  Whole,    // its writer closed it, or its own format shows that all of it is there
  Unknown,  // neither
  Torn,     // its own format shows that a part is missing
};

struct Difference {
  enum class What : std::uint8_t { New, Changed, Missing };
  std::string name;
  What what = What::New;
  bool companion = false;  // of a checkpoint: a link, or a small file
  bool beside = false;     // one that names no checkpoint, and may be of a save, as `step.txt` is
  Proof proof = Proof::Unknown;
  std::string why;         // of a torn one
  bool like = false;       // of a torn one: Keeper::has_like()
  bool temporary = false;  // its script renames such files once they are whole
  bool newest = false;     // of the checkpoint that the generation ended with
  bool current = false;    // of the set that was being written (moments.hpp)
  bool is_of_save() const { return !companion || beside; }
};

struct Plan {
  bool back = false;               // the newest generation is put back, but for what is taken up
  std::vector<std::string> away;   // names to be put away together
  std::vector<std::string> taken;  // what becomes the next generation: new, changed and missing
  std::string why;                 // of `away`, for a person
};

// `complete`: the set that was being written lacks nothing that sets usually have.
Plan plan(const std::vector<Difference>& differences, End end, bool complete);

inline constexpr std::size_t kept_generations = 3;  // two, where room is short
// Limits of what stays put away: the newest, and all of the last day, as long as there is room for
// two checkpoints more.
inline constexpr std::size_t away_limit = 8;
inline constexpr std::int64_t away_seconds = 24 * 3600;
inline constexpr const char* record_name = "checkpoints.json";
inline constexpr std::size_t record_limit = 64U << 20;
inline constexpr const char* kept_directory = "kept";
inline constexpr const char* torn_directory = "torn";

bool is_as(const Row& row, const Found& found);  // by size and times

// The next generation, once it is durable.
struct Capture {
  std::vector<Row> rows;
  std::vector<std::string> gone;
  struct LeftOut {
    std::string name, words;  // a sentence
    bool torn = false;        // although its like was whole before; else not ours to touch, say
  };
  std::vector<LeftOut> left_out;
};

// A checkpoint of a generation that was made.
struct Finished {
  std::string name;
  std::uint64_t step = 0;
  std::uint64_t bytes = 0;
  std::int64_t mtime_ns = 0;  // of its newest file
  // A checkpoint with larger numbers was there when the trainer started: it did not go on from it.
  std::string behind;
};

// The state that a trainer would resume from.
struct Settled {
  std::optional<std::uint64_t> newest;  // the record's step, if its newest generation is whole
  std::string name;
  std::vector<std::string> torn;  // one sentence each
  std::vector<std::string> said;  // what else a person should read
  std::vector<Finished> finished;
  bool left_alone = false;   // nothing was looked at: Keeper::left_alone()
  bool tried_again = false;  // a start failed on the newest generation: the one before is there
};

inline constexpr const char* trainer_reports = "its trainer reports its checkpoints";

// Knowledge of a trainer that has ended, from the one who watched it.
struct Witness {
  End end = End::Lost;
  bool complete = true;     // Moments::is_sure(); of a lost machine it is seen by the names
  bool progressed = false;  // it reported steps, or ran for longer than a save takes to come
  struct Seen {
    bool closed = false;     // by its writer, who did not die in it
    bool current = true;     // Moments::is_current()
    bool beside = false;     // a companion that a save wrote
    bool log = false;        // open for as long as the trainer ran
    bool temporary = false;  // Difference::temporary
  };
  std::function<Seen(const std::string&)> file = {};  // none: nobody looked
};

// A log, or a part of a database: it may be open at any time, and what is left of it after a crash
// is what its readers expect.
bool is_log(const std::string& name);

class Keeper {
 public:
  // Reads the record. A damaged one is as none: what is there is then taken as it is. Fails where
  // it cannot be read, or a newer Spotter wrote it: then nothing is known, and nothing may be
  // moved.
  static Result<Keeper> open(Where where);

  const Place& place() const { return place_; }
  // Has somebody opened the file for writing? If leases do not tell here, the answer is no, and the
  // close alone counts. A database is open all the time, and whole all the time.
  bool is_written(const std::string& name) const;
  bool knows_writers() const;  // do leases tell here?
  // Is this longer than a save of this trainer usually takes to come? Nothing is known: ten
  // minutes.
  bool is_long(std::chrono::steady_clock::duration time) const;
  // A file of which no write is a checkpoint: a log, or a database that takes care of itself.
  bool is_steady_log(const std::string& name) const;
  const Record& record() const { return record_; }
  // A row of which size and time are the file's, but not the time of change: another name was made
  // of the file, or it was written again and its time set. Its bytes say which; the row then has
  // the time of change if they are as recorded.
  void look_again(const Listing& listing);

  // Somebody watches from now on; durable when it returns.
  Result<void> begin();
  // Why nothing here is ours to keep (Listing::left_alone, Record::left). "": it is.
  std::string left_alone(const Listing& listing) const;
  // Nothing is kept any more; `reports`: the trainer reports its checkpoints itself, and its next
  // run will.
  Result<void> leave_alone(bool reports);

  using LeaveOut = std::function<bool(const std::string&)>;
  // Clones or copies what differs from the newest generation. No one may write to it meanwhile: the
  // caller finds out, and discards what this answered. Refuses as Busy if a file is being written
  // that `leave_out` does not name. `grows`: a file of these is open, and may be.
  // `beside`: a save wrote this companion, whatever it says.
  Result<Capture, Refusal> capture(const LeaveOut& leave_out, const LeaveOut& grows = {},
                                   const LeaveOut& beside = {});
  void discard(const Capture& capture) const;
  // This companion is a link, or says the name of a checkpoint that is there.
  bool names_one(const std::string& companion, const Listing& listing) const;
  // No save writes this companion: it stays in the newest generation only if it names a checkpoint.
  Result<void> leave_out(const std::string& companion);
  // Makes it durable, sums it up and records it; durable when it returns, and so are the rows of
  // the log that were there before: the trainer will not write them again. Refuses as Busy what was
  // changed since.
  Result<std::vector<Finished>, Refusal> finish(Capture capture);
  // Takes what sets usually have (moments.hpp), to record it with the next generation.
  void learn(std::deque<Shapes> usual) { record_.usual = std::move(usual); }

  // While no trainer runs: the directory is the newest generation afterwards, or a newer one that
  // can be shown to be whole. After this the directory is not watched. `thorough`: reads the newest
  // checkpoint, too, else size and time of change must do. Fails where a file cannot be read: it
  // may be whole. The next one goes on, whatever failed.
  Result<Settled> settle(bool thorough, const Witness& witness = {});

  // Only looks: is the newest checkpoint as it was recorded? A file changed since then is no sign
  // of a bad copy, one with the same size and time and another sum is.
  Result<Settled> prove() const;

  // These are for a person, while nobody watches (place.hpp).
  //
  // The directory becomes this generation, whole: the next one is as it was. Files that are there
  // and differ are put away; a log stays. Fails before anything is changed if there is no such
  // generation, a content of it has no copy that its sum fits, or somebody writes to a file. Broken
  // off, it goes on at the next settle().
  Result<Settled> go_back(std::uint64_t generation);
  // Brings back into the directory what was put away below this number; the next start takes it up
  // as it takes what a person brings. Fails before anything is moved if something is in the way.
  Result<Settled> bring_back(std::uint64_t number);
  // Fails where a name of it is in no generation, unless `even_the_last`.
  Result<void> remove_away(std::uint64_t number, bool even_the_last);

  // Removes what was put away, the oldest first; not the newest, and none of the last hour before
  // `now`, in seconds since 1970. That of a day is kept, if there is room for two checkpoints more.
  // Says what goes early for want of room, and what a person can remove if that does not suffice.
  void forget_away(std::int64_t now, std::vector<std::string>& said);

 private:
  explicit Keeper(Place place) : place_(std::move(place)) {
    record_.of_files = !place_.where().files.empty();
  }

  struct Evidence {
    Proof proof = Proof::Unknown;
    std::string why;
  };

  bool has_writer(const Descriptor& file) const;

  Result<void> save();
  bool sync_all();
  Result<void> make_own_folders() const;
  std::string next_number();
  bool has_room(std::uint64_t bytes) const;
  std::uint64_t newest_bytes() const;

  std::string keep(const Descriptor& file, const struct stat& status, const std::string& name);
  Result<Row, Refusal> row_of(const Member& member, bool may_be_open);
  bool is_database_file(const std::string& name) const;
  bool has_only_grown(const Row& before, int file, std::uint64_t bytes) const;
  bool is_known(const Member& member, const LeaveOut& grows) const;
  std::set<std::string> checkpoints(const Listing& listing) const;
  bool names_any(const Member& member, const std::set<std::string>& checkpoints) const;
  std::string words_of(const Member& member) const;
  bool is_hollow(const Member& member) const;
  std::string text_of(const std::string& name) const;
  Result<void, Refusal> make_durable(Row& row, bool synced) const;
  Result<void> sync_folders_of(const std::vector<Row>& rows) const;
  std::vector<Finished> enter(Capture capture);
  std::string later_one(const std::string& name) const;
  bool has_like(const std::string& name, const LeaveOut& changed) const;
  void forget_copies();
  void clear_kept() const;

  bool is_like_recorded(const std::string& companion) const;
  std::vector<Difference> differences(const Listing& listing, std::uint64_t generation,
                                      const Witness& witness = {}) const;
  Result<void> weigh(std::vector<Difference>& found, End end, const Witness& witness, bool thorough,
                     Settled& settled) const;
  bool is_old_log(const std::string& name) const;
  Result<Evidence> proof_of(const Difference& one, End end) const;
  Result<bool> has_sum(const Row& row) const;
  Result<void> take_up(const std::vector<std::string>& names, End end, Settled& settled);
  Result<void> put_away(const std::vector<std::string>& names, const std::string& why,
                        Settled& settled);
  std::vector<std::string> left_behind(std::vector<std::string> folders) const;
  void remove_empty_folders(const std::vector<std::string>& names) const;
  Result<void> put_back(const std::vector<std::string>& taken, Settled& settled);
  Result<Descriptor> copy_of(const Row& row) const;
  Result<bool> restore(Row& row);
  Result<void> try_another(const Witness& witness, Settled& settled);
  std::uint64_t before(std::uint64_t generation) const;
  bool is_restorable(const Listing& listing, std::uint64_t generation) const;
  Result<void> set_unnamed_aside();
  Result<bool> has_copy(const Row& row) const;
  Result<std::vector<Difference>> unlike(const Listing& listing, std::uint64_t generation) const;
  Result<std::vector<std::string>> weigh_return(const std::vector<Difference>& found,
                                                std::uint64_t generation) const;
  tl::unexpected<Error> wrong(const std::string& what, const std::string& name,
                              const std::error_code& error) const;

  Place place_;
  Record record_;
  bool absent_ = true;
  bool damaged_ = false;
  std::vector<std::string> unsynced_;            // copies that are not durable yet
  std::map<std::string, std::int64_t> refuted_;  // other bytes than recorded, at that change
  bool waits_ = true;                   // for the tick of files' times: their clock is not ahead
  std::uint64_t spared_ = 0;            // put away below this number, and asked for
  mutable std::optional<bool> leases_;  // has_leases(), once it was asked
};

}  // namespace spotter::guard

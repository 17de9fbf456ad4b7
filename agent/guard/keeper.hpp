// Keeps a trainer's finished checkpoint files: durable, recorded by their sum, the last content of
// each of the newest two names copied, so that a file torn while it was overwritten can be put
// back.
//
// When is a file finished? When it was closed, and nobody died about then: the kernel closes a
// killed writer's files, too. Where somebody did, only a format whose end is written last can tell
// (shape.hpp). A file that was closed and not yet recorded when the machine was lost may lack any
// of its blocks: then only a zip whose every CRC-32 fits is believed; all else that is not recorded
// is moved aside.
//
// A folder that is one checkpoint (Where::folders) is finished when its format (format.hpp) and its
// quiet say so. It is recorded, and moved aside, as one; nothing of it is copied or put back. What
// a machine's loss left unrecorded of it is not believed.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "agent/guard/contents.hpp"
#include "agent/guard/place.hpp"
#include "agent/guard/record.hpp"
#include "agent/guard/refusal.hpp"

namespace spotter::guard {

inline constexpr std::size_t kept_names = 2;  // whose last content is copied
// Files and folders set aside that stay: the newest, and all of the last day. Should we ever be
// wrong about many of them, a person has the time to notice; but of folders no more stay than leave
// room for two checkpoints.
inline constexpr std::size_t torn_limit = 8;
inline constexpr std::int64_t torn_seconds = 24 * 3600;
inline constexpr const char* record_name = "checkpoints.json";
inline constexpr const char* kept_directory = "kept";
inline constexpr const char* torn_directory = "torn";

enum class Closing : std::uint8_t { Voluntary, Unsure };

// A file, or a folder, whose content is durable and known; not yet recorded.
struct Candidate {
  Found file;
  std::string sum;
  std::string kept;
  std::vector<Part> parts = {};  // of a folder, which has one at least
};

// What a folder must show to be believed whole; a later one asks for less.
enum class Asked : std::uint8_t {
  Seal,  // its trainer was killed just now: that it is proven, or like the one before and sealed
  Likeness,  // it has been quiet for a moment: that it is proven, or like the one before
  Format,    // for longer: that its format is one of format.hpp, and complains of nothing
  Quiet,  // for so long that its trainer must have gone on to something else: that it is not stale
  Nothing,  // its trainer has left by itself, or nobody watched: that nothing is missing
};

// Of a folder's files: their names, lengths and times of change.
std::string look_of(const std::vector<Part>& parts);

// What a trainer would resume from.
struct Settled {
  std::optional<std::uint64_t> newest;  // the record's step, if its newest file is whole
  std::string name;
  std::vector<std::string> torn;  // one sentence each
  std::vector<std::string> said;  // what else a person should read
};

class Keeper {
 public:
  // Reads the record. A damaged one is as none: what is there is then taken as it is. Fails where
  // it cannot be read, or a newer Spotter wrote it: then nothing is known, and nothing may be
  // moved.
  static Result<Keeper> open(Where where);

  const Place& place() const { return place_; }
  const Record& record() const { return record_; }

  // Somebody watches from now on; durable when it returns.
  Result<void> begin();

  // Makes the file's content durable, sums it up and copies it. Nobody may write to it meanwhile:
  // the caller finds out, and discards what this answered.
  Result<Candidate, Refusal> examine(const std::string& name, Closing closing);
  // The same of a folder, each file and each folder of it. Refuses as Unsure one that may be whole
  // and does not show what is asked for.
  Result<Candidate, Refusal> examine_folder(const std::string& name, Asked asked);
  void discard(const Candidate& candidate) const;
  // Records it; durable when it returns, and so are the rows of the log that were there before: the
  // trainer will not write them again.
  Result<Entry> finish(Candidate candidate);

  // While no trainer runs: moves aside what is not whole, puts back the last whole content where it
  // was overwritten, takes up what came from elsewhere. Nobody watches any more then. `thorough`:
  // reads the newest file, too, else size and time of change must do. Fails where a file that is
  // recorded cannot be read: it may be whole; and where a copy cannot be put back. The next one
  // goes on, whatever failed. Copies that a damaged record named are set aside.
  Result<Settled> settle(bool thorough);

  // Removes what was set aside and need not stay, as of `now` (seconds since 1970). settle() does.
  // Says which folders went early, for want of room.
  void forget_torn(std::int64_t now, std::vector<std::string>& said) const;

  // Only looks: is the newest recorded file as it was recorded? A file changed since then is no
  // sign of a bad copy, one with the same size and time and another sum is.
  Result<Settled> prove() const;

 private:
  explicit Keeper(Place place) : place_(std::move(place)) {}

  Result<Entry> enter(Candidate candidate);  // finish(), but for what makes it durable
  Result<void> save();
  bool keeps_folders() const { return !place_.where().folders.empty(); }
  Result<void> make_own_folders() const;
  Result<void> begin_settling(Settled& settled);
  void forget_parts_of(const std::vector<std::string>& ones, Settled& settled);
  std::string next_number();
  std::string copy(int file, const struct stat& status);
  Result<bool> is_whole(const Entry& entry, const Found& file, bool thorough) const;
  // How a folder differs from what was recorded of it: in the names, sizes or times of its files,
  // or only in their bytes, which are read if `thorough`.
  enum class Difference : std::uint8_t { None, Look, Bytes };
  Result<Difference> compare(const Entry& entry, const Unit& unit, bool thorough) const;
  Result<void> set_aside(const std::string& name, const std::string& why, Settled& settled);
  Result<Descriptor> whole_copy(const Entry& entry) const;
  Result<void> set_unnamed_aside();
  Result<void> exchange(Entry& entry, const std::string& why, Settled& settled);
  Result<void> put_back(Entry& entry, const Descriptor& copy, Settled& settled);
  Result<void> settle_recorded(const std::vector<Found>& files, bool thorough,
                               std::vector<Found>& unknown, Settled& settled);
  Result<void> settle_unknown(std::vector<Found> unknown, Settled& settled);
  Result<Settled> settle_folders(bool thorough);
  Result<void> settle_recorded(const std::vector<Unit>& units, bool thorough,
                               std::vector<const Unit*>& unknown, Settled& settled);
  Result<void> settle_unknown(const std::vector<const Unit*>& unknown, Settled& settled);
  Result<void> set_folder_aside(const std::string& name, const std::string& why, Settled& settled);
  void settle_latest(Settled& settled) const;
  Result<Settled> prove_folders() const;
  bool is_like_the_last(const Contents& contents) const;
  bool can_be_judged(const Unit& unit) const;  // false: what the format asks for cannot be read
  void forget_old_copies();
  void clear_kept() const;
  tl::unexpected<Error> wrong(const std::string& what, const std::string& name,
                              const std::error_code& error) const;

  Place place_;
  Record record_;
  bool damaged_ = false;
  bool absent_ = true;
};

}  // namespace spotter::guard

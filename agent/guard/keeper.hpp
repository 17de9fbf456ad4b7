// Keeps a trainer's finished checkpoint files: durable, recorded by their sum, the last content of
// each of the newest two names copied, so that a file torn while it was overwritten can be put
// back.
//
// When is a file finished? When it was closed, and nobody died about then: the kernel closes a
// killed writer's files, too. Where somebody did, only a format whose end is written last can tell
// (shape.hpp). A file that was closed and not yet recorded when the machine was lost may lack any
// of its blocks: then only a zip whose every CRC-32 fits is believed; all else that is not recorded
// is moved aside.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "agent/guard/place.hpp"
#include "agent/guard/record.hpp"

namespace spotter::guard {

inline constexpr std::size_t kept_names = 2;  // whose last content is copied
// Files set aside that stay: the newest, and all of the last day. Should we ever be wrong about a
// whole folder of them, a person has the time to notice.
inline constexpr std::size_t torn_limit = 8;
inline constexpr std::int64_t torn_seconds = 24 * 3600;
inline constexpr const char* record_name = "checkpoints.json";
inline constexpr const char* kept_directory = "kept";
inline constexpr const char* torn_directory = "torn";

enum class Closing : std::uint8_t { Voluntary, Unsure };

// A file whose content is durable and known; not yet recorded.
struct Candidate {
  Found file;
  std::string sum;
  std::string kept;
};

struct Refusal {
  enum class Why : std::uint8_t { Gone, Busy, Torn, Unsure, Failed };
  Why why = Why::Gone;
  std::string words;  // for the journal, of Torn and Failed
};

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
  tl::expected<Candidate, Refusal> examine(const std::string& name, Closing closing);
  void discard(const Candidate& candidate) const;
  // Records it; durable when it returns.
  Result<Entry> finish(Candidate candidate);

  // While no trainer runs: moves aside what is not whole, puts back the last whole content where it
  // was overwritten, takes up what came from elsewhere. Nobody watches any more then. `thorough`:
  // reads the newest file, too, else size and time of change must do. Fails where a file that is
  // recorded cannot be read: it may be whole; and where a copy cannot be put back. The next one
  // goes on, whatever failed. Copies that a damaged record named are set aside.
  Result<Settled> settle(bool thorough);

  // Removes files set aside that need not stay, as of `now` (seconds since 1970). settle() does.
  void forget_torn(std::int64_t now) const;

  // Only looks: is the newest recorded file as it was recorded? A file changed since then is no
  // sign of a bad copy, one with the same size and time and another sum is.
  Result<Settled> prove() const;

 private:
  explicit Keeper(Place place) : place_(std::move(place)) {}

  Result<void> save();
  std::string next_number();
  std::string copy(int file, const struct stat& status);
  Result<bool> is_whole(const Entry& entry, const Found& file, bool thorough) const;
  Result<void> set_aside(const std::string& name, const std::string& why, Settled& settled);
  Result<Descriptor> whole_copy(const Entry& entry) const;
  Result<void> set_unnamed_aside();
  Result<void> exchange(Entry& entry, const std::string& why, Settled& settled);
  Result<void> put_back(Entry& entry, const Descriptor& copy, Settled& settled);
  Result<void> settle_recorded(const std::vector<Found>& files, bool thorough,
                               std::vector<Found>& unknown, Settled& settled);
  Result<void> settle_unknown(std::vector<Found> unknown, Settled& settled);
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

// The guard's record of the checkpoint directory, durable beside it: its generations.
//
// A *generation* is the directory as it was at a quiet moment. A row is one content of one name, in
// all generations from `from` until, without it, `until`: what does not change costs one row.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string_view>

#include "agent/base/result.hpp"
#include "agent/guard/moments.hpp"

namespace spotter::guard {

struct Row {
  static constexpr std::string_view keys =
      "name! bytes! mtime_ns! changed_ns? sum? kept? link? from! until? companion? grows?";
  std::string name;  // relative to the directory
  std::uint64_t bytes = 0;
  std::int64_t mtime_ns = 0;
  std::int64_t changed_ns = 0;
  std::string sum;          // of the bytes; "": of a link, of what grows
  std::string kept;         // its copy, in the folder `kept`; "": there is none
  std::string link;         // of a symbolic link: where it leads
  std::uint64_t from = 0;   // generation
  std::uint64_t until = 0;  // 0: no generation lacks it
  bool companion = false;   // no checkpoint: a small file, or a link, beside them (place.hpp)
  bool grows = false;       // a log, whose first `bytes` bytes were there
  friend bool operator==(const Row&, const Row&) = default;
};

struct Generation {
  static constexpr std::string_view keys = "number! step! run! time! name! failed!";
  std::uint64_t number = 0;
  std::uint64_t step = 0;  // of its newest checkpoint
  std::uint64_t run = 0;
  std::int64_t time = 0;  // seconds since 1970
  std::string name;       // of its newest checkpoint, a file or a folder; "": it has none
  bool failed = false;    // a trainer that started on it failed before its first progress
  friend bool operator==(const Generation&, const Generation&) = default;
};

// Files that were put away, in the folder `torn` below their number.
struct Away {
  static constexpr std::string_view keys = "number! time! bytes! names! why!";
  std::uint64_t number = 0;
  std::int64_t time = 0;
  std::uint64_t bytes = 0;
  std::vector<std::string> names;
  std::string why;
  friend bool operator==(const Away&, const Away&) = default;
};

// A file of a checkpoint, below its folder; of one that is a file its own name.
struct Part {
  std::string name;
  std::uint64_t bytes = 0;
  std::int64_t mtime_ns = 0;
  std::string sum;
  friend bool operator==(const Part&, const Part&) = default;
};

struct Record {
  static constexpr std::string_view keys =
      "watching! run! step! number! generations! rows! away! usual! rewritten! restoring! tried! "
      "of_files! patterns! left!";
  bool watching = false;   // a guard is at work: what it has not recorded is not known to be whole
  std::uint64_t run = 0;   // how often somebody began to watch
  std::uint64_t step = 0;  // how often there was progress: what the agent counts
  std::uint64_t number = 0;             // of the last copy, or of what was put away last
  std::vector<Generation> generations;  // the newest last
  std::vector<Row> rows;                // sorted by name, then by `from`
  std::vector<Away> away;               // the newest last
  std::deque<Shapes> usual;             // moments.hpp
  std::set<std::string> rewritten;      // shapes of names that were written over
  bool restoring = false;  // a generation is being put back, and is not there whole yet
  std::uint64_t tried =
      0;                  // the generation that failed, while the one before is tried in its place
  bool of_files = false;  // patterns name files: each is a checkpoint
  std::string patterns;   // of what was watched last, as job.yaml had it
  bool left = false;      // without patterns: the trainer reports its checkpoints itself
  friend bool operator==(const Record&, const Record&) = default;

  const Generation* newest() const { return generations.empty() ? nullptr : &generations.back(); }
  std::uint64_t newest_number() const { return newest() != nullptr ? newest()->number : 0; }
  const Generation* find(std::uint64_t generation) const;
  // The rows of this generation, sorted by name.
  std::vector<const Row*> rows_of(std::uint64_t generation) const;
  const Row* row(std::string_view name) const;  // of the newest

  // The checkpoint that a file belongs to: a folder directly below the directory, or the file.
  std::string checkpoint_of(const std::string& name) const;
  // Is each name of its kind written only once? Its checkpoint has a number, and two of the same
  // shape with other numbers are there, or were, since different moments.
  bool is_series(const std::string& name) const;
  // The files of this checkpoint, a folder or a file, as they are in the newest generation.
  std::vector<Part> parts_of(const std::string& checkpoint) const;

  // The next generation: the newest without `gone`, with `rows` in the place of those of their
  // names. Answers it.
  Generation& add(Generation generation, std::vector<Row> rows,
                  const std::vector<std::string>& gone);
  // The newest generation, changed in these: it was not quite over.
  void amend(std::vector<Row> rows, const std::vector<std::string>& gone);
  // The next generation is as this one was.
  void go_to(std::uint64_t generation);
  // Only the newest `count` generations stay.
  void forget_but(std::size_t count);
};

// checkpoint-500, step_500, 500, checkpoint-500-epoch-3: the number beside a word that says it,
// else the one that a name ends with, without its extension, up to 15 digits. None in resnet50,
// llama-7b.
std::optional<std::uint64_t> step_in(const std::string& name);

// The name of a copy, or of what is put away: 000042.
std::string numbered(std::uint64_t number);

// The first of them, and how many there are more.
std::string some_of(const std::vector<std::string>& names);

std::string bytes_text(std::uint64_t bytes);  // 512 B, 4.1 kB, 1.3 GB

std::string sum_of_parts(const std::vector<Part>& parts);  // of names, lengths and sums

// checkpoint::seal() and unseal(), for texts of any bytes; unseal(): of an object.
std::string seal(nlohmann::json object);
std::optional<nlohmann::json> unseal(std::string_view bytes);

std::string encode(const Record& record);
// Fails for anything that encode() cannot have written. `newer`: the sum is right, the format a
// later one; every format keeps `format`, and the sum as its last member. Earlier formats are not
// known any more.
Result<Record> decode(std::string_view bytes);

}  // namespace spotter::guard

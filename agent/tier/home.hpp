// The files of a job's home on their way to a bucket and back: what `spotter host` does for a job
// with storage.s3, with the rights of the trainer's user and the trainer's role at AWS. The head
// (wire/head.hpp), which only the agent writes, says who may write and what is committed: here that
// is a manifest's name.
//
// In the bucket (trainer/library/bucket.hpp) a group is the epoch that sent it, and a manifest
// has its epoch and its own sum: manifests/7-SUM.json.
//
// Kept are the newest two finished checkpoints (and the best), results, logs and the job's records.
// Calls block.
#pragma once

#include "agent/aws/s3/client.hpp"
#include "agent/tier/results.hpp"
#include "agent/wire/verbs.hpp"

namespace spotter::tier {

struct Home : verbs::Home {
  wire::S3Location place;  // what `at` says
  s3::Settings s3;
  // True: checkpoints are all that is there, whatever their names.
  bool of_all() const { return files.empty() && folders.empty(); }
};

struct Kept {
  std::string manifest;      // its name: what the head is to name
  std::int64_t newest = -1;  // the step of the newest checkpoint in it; -1: none
  std::uint64_t bytes = 0;   // of all its files
  std::uint64_t sent = 0;
  std::vector<std::string> said;  // for a person: what could not be taken along
  s3::Tally requests;
};

// Uploads what is not there yet. The committed checkpoints stay if no finished one could be taken.
Result<Kept> keep(const Home& home, const verbs::KeepHome& request);

struct Brought {
  std::uint64_t files = 0;
  std::uint64_t bytes = 0;        // that were fetched; what was here already is not fetched again
  std::vector<std::string> torn;  // checkpoints that are not whole in the bucket: left out
  // The former content, which was not newer, is gone; also by an earlier bring, as long as nothing
  // was kept since.
  bool cleared = false;
  s3::Tally requests;
};

// Makes the folder what the manifest says; empty: nothing but what keep() never takes. If the
// folder was brought, or kept, in epoch `held` or in this one, its content is newer: then only
// missing and torn files are fetched. A torn file has the size and time in the manifest, but not
// the sum. Every file is verified before it has its name.
Result<Brought> bring(const Home& home, const std::string& manifest, std::uint32_t held);

// Is the folder a working copy of the home there, of whatever age?
bool is_copy(const fs::path& folder, const std::string& url);

// The content of a home: which of its files are kept, and what the folder here was made of.
// Internal to tier.

inline constexpr const char* mark_name = "home.json";  // in it: never kept itself

inline constexpr const char* code_folder = "code";
// Names in the home that only these processes use: what has not its own yet; a number follows.
inline constexpr const char* fetching = ".spotter-home";
inline constexpr std::string_view left_behind = ".spotter-left-";

// True for a name in the home that is never kept, and made again by others. Its content stays as it
// is.
bool is_left_alone(const std::string& name);

// The files and folders that are kept whatever is in them, beside checkpoints and records: the
// trainer's log of metrics, too, as far as `folder` has it now.
std::vector<std::string> kept_roots(const Home& home, const io::SafeDirectory& folder);

// Changes nothing. Fails where what is there cannot be read.
Result<Inventory> look_over(const Home& home, const io::SafeDirectory& folder, bool whole);

// The folder's state: brought, or kept last, in this epoch of this home, as this manifest says.
// None: unknown, or it is of another home.
struct Mark {
  std::uint32_t epoch = 0;
  std::string name;  // of the manifest; empty: nothing was committed before
  bucket::Manifest manifest;
  // The folder's former content went when it was brought, and nothing was kept since: whoever asked
  // for that may have been killed before it got the answer.
  bool cleared = false;
};
std::optional<Mark> read_mark(const Home& home, const io::SafeDirectory& folder);
Result<void> write_mark(const Home& home, const io::SafeDirectory& folder, const Mark& mark);

Result<bucket::Manifest> read_manifest(bucket::Bucket& bucket, const std::string& name);

}  // namespace spotter::tier

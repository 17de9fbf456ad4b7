// The manifest of a home in a bucket: its files. Whoever may write to the bucket can have written
// it, so nothing in it is believed. No I/O. One JSON object, whose last member is the XXH3 sum of
// all bytes before it, as in trainer/library/manifest.hpp.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/base/result.hpp"
#include "agent/io/safe_directory.hpp"
#include "agent/tier/home.hpp"

namespace spotter::tier {

struct KeptFile {
  std::uint64_t bytes = 0;
  std::int64_t mtime_ns = 0;
  std::string sum;          // XXH3, 128 bit
  std::uint32_t epoch = 0;  // that brought its bytes
  friend bool operator==(const KeptFile&, const KeptFile&) = default;

  std::string key() const;  // "data/7/SUM-BYTES", relative to the home in the bucket
};

struct HomeManifest {
  std::string job;
  std::int64_t newest = -1;               // the step of the newest checkpoint; -1: none
  std::map<std::string, KeptFile> files;  // by their path, relative to the home
  friend bool operator==(const HomeManifest&, const HomeManifest&) = default;
};

inline constexpr std::size_t most_kept_files = 20'000;
inline constexpr std::size_t home_manifest_limit = 8U << 20;  // what s3::read() takes

// Relative, without empty, "." or ".." components, of no hidden name but ours.
bool is_kept_path(std::string_view path);

std::string encode(const HomeManifest& manifest);
// Fails for bytes that encode() cannot have written. `newer`: the sum is right, the format a later.
Result<HomeManifest> decode_home(std::string_view bytes);

// The content of a home: which of its files are kept, and what the folder here was made of.
// Internal to tier.

inline constexpr const char* own_folder = ".spotter";
inline constexpr const char* mark_name = "home.json";  // in it: never kept itself

// A file that is to be kept, as it should be found.
struct Wanted {
  std::string path;                    // in the home as it will be brought back
  std::string from;                    // where its bytes are; mostly the same
  std::string sum;                     // that they must have; empty: whatever is there
  std::optional<std::string> content;  // in the place of the file's own
};

// A finished checkpoint: kept as a whole or not at all.
struct WantedCheckpoint {
  std::string name;
  std::int64_t step = -1;
  std::vector<Wanted> files;
};

struct Inventory {
  std::vector<WantedCheckpoint> checkpoints;  // the newest first
  std::vector<Wanted> others;
};

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
  HomeManifest manifest;
  // The folder's former content went when it was brought, and nothing was kept since: whoever asked
  // for that may have been killed before it got the answer.
  bool cleared = false;
};
std::optional<Mark> read_mark(const Home& home, const io::SafeDirectory& folder);
Result<void> write_mark(const Home& home, const io::SafeDirectory& folder, const Mark& mark);

// A failure of S3, and not of what is here. Its kind is "s3" where S3 may answer another time, so
// that it is asked again soon; "s3-refused" where a person has to permit it; else "s3-rejected".
tl::unexpected<Error> failed_at_s3(const s3::Failure& why);

Result<HomeManifest> read_manifest(s3::Client& client, const Home& home, const std::string& name);

}  // namespace spotter::tier

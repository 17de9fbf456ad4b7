// The content of a home: which of its files are kept, and what the folder here was made of.
// Internal to tier.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/base/result.hpp"
#include "agent/io/safe_directory.hpp"
#include "agent/tier/home.hpp"
#include "trainer/library/transfer.hpp"

namespace spotter::tier {

using bucket::Wanted;

// The files below a directory, for a sender. REQUIRES: it outlives what is returned.
bucket::Sender::Open opener(const io::SafeDirectory& folder);
// A new file at that path below it, with the folders that lead there.
Result<checkpoint::Descriptor> make_file(const io::SafeDirectory& folder, const std::string& path);
Result<void> make_folders(const io::SafeDirectory& folder, const std::string& path);

struct Fetched {
  std::uint64_t files = 0, bytes = 0;
  std::map<std::string, std::string> torn;  // a path, and why it is not whole in the bucket
};
// Brings files to their paths below the directory, in the place of what is there: each has the name
// `coming` until it is verified. `received` as bucket::Receiver has it.
Result<Fetched> fetch_files(bucket::Bucket& bucket,
                            const std::vector<const bucket::Files::value_type*>& files,
                            const io::SafeDirectory& folder, const std::string& coming,
                            std::function<void(std::size_t)> received = {});

inline constexpr const char* own_folder = ".spotter";
inline constexpr const char* mark_name = "home.json";  // in it: never kept itself

// A finished checkpoint: kept as a whole or not at all.
struct WantedCheckpoint {
  std::string name;
  std::int64_t step = -1;
  std::vector<Wanted> files;
};

struct Inventory {
  std::vector<WantedCheckpoint> checkpoints;  // the newest first
  std::vector<Wanted> others;
  std::vector<std::string> left_out;  // for a person
};

// Adds each regular file at or below that path to `others`. Links and what is no file are passed
// over.
Result<void> walk(const io::SafeDirectory& home, const std::string& path, Inventory& into,
                  int depth = 0);
// True for a file of that length and sum.
bool is_whole(const io::SafeDirectory& folder, const bucket::Files::value_type& file);

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

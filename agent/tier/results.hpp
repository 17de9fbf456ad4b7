// Files of a job for a person: put where the job is published, under their own names, and brought
// from there, or from a home in a bucket, into a folder.
//
//   AT/weights.pt              a file's bytes, at its path in the home
//   AT/manifests/result.json   names the files, with their sums; written last (bucket.hpp)
//
// Calls block.
#pragma once

#include <filesystem>
#include <functional>

#include "agent/io/safe_directory.hpp"
#include "trainer/library/transfer.hpp"

namespace spotter::tier {

// The name of the one manifest of results in a bucket.
std::string results_manifest();

struct Outgoing {
  fs::path home;
  std::vector<std::string> paths;  // files and folders in it; what is not there is none
  // Runs what it is given with the rights of those whose files they are.
  std::function<void(const std::function<void()>&)> as_owner;
};
struct Sent {
  std::uint64_t files = 0, bytes = 0;
  std::vector<std::string> left_out;  // links, and what is no file
};
// Replaces what an earlier run put there. Nothing there is removed, and nothing is put where there
// is none of the paths.
Result<Sent> send_files(bucket::Bucket& bucket, const std::string& job, const Outgoing& files);

// Has it all of these paths, files or folders?
bool names_all(const bucket::Manifest& manifest, const std::vector<std::string>& paths);

struct Incoming {
  std::vector<std::string> paths;  // files and folders of the manifest; empty: all but our own
  fs::path to;                     // made if need be
  // Called as bytes come: of all that are fetched.
  std::function<void(std::uint64_t bytes, std::uint64_t of)> progress;
};
struct Arrived {
  std::uint64_t files = 0, bytes = 0;  // that were fetched
  std::uint64_t there = 0;             // files that were whole there already
  std::vector<std::string> names;      // of both, as the manifest has them
  std::vector<std::string> torn;       // sentences: files that are not whole in the bucket
};
// The name that a file has in `to` before it has its own; of this process alone.
std::string coming_file(const fs::path& to);
// Each file is verified before it has its name, in the place of what has that name. Fails for a
// path that the manifest does not have.
Result<Arrived> bring_files(bucket::Bucket& bucket, const bucket::Manifest& manifest,
                            const Incoming& wanted);

// Files on their way, which a home and results share. Internal to tier, and to what sends code.

inline constexpr const char* own_folder = ".spotter";

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
// There is nothing of that name.
bool is_absent(const std::error_code& error);
// True for a file of that length and sum.
bool is_whole(const io::SafeDirectory& folder, const bucket::Files::value_type& file);

}  // namespace spotter::tier

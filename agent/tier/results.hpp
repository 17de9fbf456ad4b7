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

#include "trainer/library/bucket.hpp"

namespace spotter::tier {

// The name of the one manifest of results in a bucket.
std::string results_manifest();

struct Outgoing {
  std::filesystem::path home;
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
  std::filesystem::path to;        // made if need be
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
std::string coming_file(const std::filesystem::path& to);
// Each file is verified before it has its name, in the place of what has that name. Fails for a
// path that the manifest does not have.
Result<Arrived> bring_files(bucket::Bucket& bucket, const bucket::Manifest& manifest,
                            const Incoming& wanted);

}  // namespace spotter::tier

// Files of a job in a bucket, by their content: the copies of libspotter's checkpoints
// (s3_mirror.hpp) and of checkpoints that are folders (agent/tier/tier.hpp), and a home
// (agent/tier/home.hpp).
//
//   AT/data/GROUP/SUM-BYTES    a file's bytes, and their XXH3 sum; an empty file has no object
//   AT/manifests/NAME.json     names files; written when all of them are there, and only if absent:
//                              the commit. Removed before what it names
//
// A group is a checkpoint's, or the epoch of a home, so no writer changes what another has named.
// A manifest is removed only by who has read and judged it. Bytes that no manifest names are the
// rest of an interrupted copy, or of one under way: of checkpoints a writer at the same or a later
// step removes them when they are a day old, of a home one in the same or a later epoch does at
// once. So a copy that takes a day may lose its bytes to another run's; a place is for one run, or
// has a fence. transfer.hpp carries the files.
//
// A manifest is one JSON object, whose last member is the sum of all bytes before it, as in
// manifest.hpp. Anyone who may write to the bucket can have written it: nothing in it is believed.
//   {"format":1,"job":"mine","name":"checkpoint-500","step":500,"saved_ms":N,"files":[{"path":
//    "model.safetensors","bytes":N,"mtime_ns":N,"sum":"hex","group":"checkpoint-500-hex"}],
//    "xxh3_128":"hex"}     without what is not known; where the trainer gave one, "metric":0.97
#pragma once

#include <map>
#include <optional>
#include <string_view>

#include "agent/aws/s3/client.hpp"
#include "agent/base/result.hpp"

namespace spotter::bucket {

inline constexpr std::size_t manifest_limit = 8U << 20;  // bytes: what s3::read() takes
inline constexpr std::size_t most_files = 20'000;        // a thousand ranks write four files each

struct File {
  std::uint64_t bytes = 0;
  std::int64_t mtime_ns = 0;
  std::string sum;  // XXH3, 128 bit
  std::string group;
  friend bool operator==(const File&, const File&) = default;

  std::string key() const;  // "data/GROUP/SUM-BYTES"
};
using Files = std::map<std::string, File>;  // by their path

// Without a group a file has its own name, for people: its key is its path.
std::string key_of(const Files::value_type& file);

struct Manifest {
  std::string job;         // whose the files are; empty: of a job that has no name
  std::string name;        // of the checkpoint, in its directory; empty: of a home
  std::int64_t step = -1;  // of the checkpoint, or of the newest in the home; -1: none
  std::int64_t saved_ms = 0;
  std::optional<double> metric;
  Files files;
  friend bool operator==(const Manifest&, const Manifest&) = default;

  std::string sum() const;  // of the files' paths, lengths and sums
};

// A file or folder directly in a directory: neither hidden nor a path.
bool is_folder_name(std::string_view name);
// Relative, without empty, "." or ".." components, not endlessly deep or long.
bool is_path(std::string_view path);

std::string encode(const Manifest& manifest);
// Fails for bytes that encode() cannot have written, and for what must not become files: a path
// that leads out or is there twice, a file where another one needs a folder, more than most_files.
// `newer`: the sum is right, the format a later one.
Result<Manifest> decode(std::string_view bytes);

// "7-SUM" to "manifests/7-SUM.json"
std::string manifest_name(const std::string& stem);

// The kind of an Error: what is in the bucket is not what was written there.
inline constexpr const char* torn = "torn";

// A failure of S3. Its kind is "s3" where S3 may answer another time, so that it is asked again
// soon; "s3-refused" where a person has to permit it; else "s3-rejected".
tl::unexpected<Error> failed(const s3::Failure& why);

// Calls block.
class Bucket {
 public:
  // `at` ends with a slash, or is empty.
  Bucket(wire::S3Location at, std::string job, s3::Settings settings)
      : at_(std::move(at)), job_(std::move(job)), client_(std::move(settings)) {}

  s3::Client& client() { return client_; }
  wire::S3Location where(const std::string& name) const { return {at_.bucket, at_.key + name}; }
  std::string shown(const std::string& name) const { return wire::to_url(where(name)); }

  // The stems of the manifests that are there.
  Result<std::vector<std::string>> stems();
  // None: there is no such manifest. Fails as `torn`, as `newer`, and for another job's.
  Result<std::optional<Manifest>> read(const std::string& name);
  // Whether it is there, with these files. Fails for one with other files.
  Result<bool> has(const std::string& name, const Manifest& manifest);
  // The same, whatever is there.
  Result<void> replace(const std::string& name, const Manifest& manifest);
  // REQUIRES: all that it names is there. Succeeds if has().
  Result<void> commit(const std::string& name, const Manifest& manifest);

  // The files' bytes that are there; with `group` only of that one.
  struct Data {
    std::string group;
    std::string name;
    std::uint64_t bytes = 0;
    bool is_old = false;  // a day, by S3's own clock; false where S3 does not say it
  };
  Result<std::vector<Data>> data(const std::string& group = "");
  // Removes these, in this order: manifests before what they name, and what data() said before the
  // manifests were read, as a later listing has what nobody judged. Stops at what S3 does not
  // remove: that costs only what is stored a little longer.
  void remove(const std::vector<std::string>& names);

 private:
  wire::S3Location at_;
  std::string job_;
  s3::Client client_;
};

}  // namespace spotter::bucket

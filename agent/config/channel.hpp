// A job's data channels, as job.yaml, a command line, or SageMaker's documents define them. No I/O.
// Source: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_Channel.html
#pragma once

#include "agent/aws/formats/s3.hpp"

namespace spotter::wire {

enum class InputMode : std::uint8_t { Pipe, File, FastFile };
enum class S3DataType : std::uint8_t { S3Prefix, ManifestFile, AugmentedManifestFile };

struct Channel {
  std::string name;
  S3Location source;  // a prefix, or a manifest's key
  InputMode mode = InputMode::Pipe;
  S3DataType type = S3DataType::S3Prefix;
  std::vector<std::string> attributes;  // of an AugmentedManifestFile, in the order of the stream
  bool gzip = false;                    // each object is unpacked as it is sent
  bool recordio = false;                // each object becomes one RecordIO record
  std::optional<std::uint64_t> shuffle_seed;
  bool sharded = false;         // by key, over the job's instances
  bool anonymous = false;       // a public bucket: no credentials
  bool requester_pays = false;  // S3 sends the bill to us, and not to the bucket's owner
  std::string content_type;     // only passed to the trainer
  friend bool operator==(const Channel&, const Channel&) = default;
};

// [A-Za-z0-9.-_]{1,64}, as in SageMaker; the name becomes part of a path.
bool is_channel_name(std::string_view name);

// Fails, naming every mistake, for modes, types and wrappers that do not go together.
Result<Channel> validated(Channel channel);

// Sets one setting by its name: mode, type, compression, record_wrapper, distribution,
// shuffle_seed, anonymous, requester_pays, content_type. Accepts both spellings of a value: file
// and File, manifest and ManifestFile.
Result<void> set_setting(Channel& channel, std::string_view name, std::string_view value);

// train=s3://bucket/prefix, then each setting as ,NAME=VALUE, or short: ,gzip ,recordio
// ,shuffle=SEED ,sharded ,anonymous ,requester_pays. ,attributes=NAME:NAME. A comma is written %2C,
// a colon in an attribute's name %3A, and a literal %2C %252C.
Result<Channel> parse_channel(std::string_view text);

// Appends it. Fails when its name is taken, or is that of an epoch of a streamed channel, or when
// there are 1,000 channels, or 100 of mode fast_file.
Result<void> add_channel(std::vector<Channel>& all, Channel channel);

// The inverse of parse_channel(). REQUIRES: a valid channel.
std::string describe(const Channel& channel);

// CreateTrainingJob's InputDataConfig: a JSON array of channels, or an object with a member of that
// name. Ignores members that do not describe the data.
Result<std::vector<Channel>> parse_input_data_config(std::string_view json);

// A manifest: [{"prefix": "s3://bucket/path/"}, "one", "two/three"]
// https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_S3DataSource.html
struct Manifest {
  S3Location prefix;
  std::vector<std::string> keys;  // complete keys, in the prefix's bucket
};
Result<Manifest> parse_manifest(std::string_view json);

// One line of an augmented manifest: for each attribute the object that "...-ref" names, or the
// value itself as written (a text without its quotes).
struct ManifestEntry {
  std::optional<S3Location> object;
  std::string value;
};
Result<std::vector<ManifestEntry>> parse_augmented_line(std::string_view line,
                                                        const std::vector<std::string>& attributes);

}  // namespace spotter::wire

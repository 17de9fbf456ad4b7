// A job's data channels, as job.yaml, a command line, or SageMaker's documents say them. No I/O.
// Source: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_Channel.html
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/aws/formats/s3.hpp"
#include "agent/base/result.hpp"

namespace spotter::wire {

enum class InputMode : std::uint8_t { Pipe, File, FastFile };
enum class S3DataType : std::uint8_t { S3Prefix, ManifestFile, AugmentedManifestFile };

struct Channel {
  std::string name;
  S3Location source;  // a prefix, or a manifest's key
  InputMode mode = InputMode::Pipe;
  S3DataType type = S3DataType::S3Prefix;
  std::vector<std::string> attributes;  // of an AugmentedManifestFile, in the order of the stream
  bool gzip = false;                    // each object is unpacked on its way
  bool recordio = false;                // each object becomes one RecordIO record
  std::optional<std::uint64_t> shuffle_seed;
  bool sharded = false;      // by key, over the job's instances
  bool anonymous = false;    // a public bucket: no credentials
  std::string content_type;  // which the trainer is told, and nobody else asks for
  friend bool operator==(const Channel&, const Channel&) = default;
};

// [A-Za-z0-9.-_]{1,64}, as SageMaker has it; the name becomes a part of a path.
bool is_channel_name(std::string_view name);

// All that is wrong with it, or nothing: modes, types and wrappers that do not go together.
Result<Channel> validated(Channel channel);

// One setting by its name: mode, type, compression, record_wrapper, distribution, shuffle_seed,
// anonymous, content_type. Of modes and the like both words are known: file and File, manifest and
// ManifestFile.
Result<void> set_setting(Channel& channel, std::string_view name, std::string_view value);

// train=s3://bucket/prefix, and after it each setting as ,NAME=VALUE, or short: ,gzip ,recordio
// ,shuffle=SEED ,sharded ,anonymous. ,attributes=NAME:NAME. A comma is written %2C, a colon in an
// attribute's name %3A, and what looks like that %252C.
Result<Channel> parse_channel(std::string_view text);

// Appends it, or says why it cannot be beside the others: its name is taken, or is that of an epoch
// of a streamed one, or there are 1,000 channels, or 100 of mode fast_file.
Result<void> add_channel(std::vector<Channel>& all, Channel channel);

// Such that parse_channel() makes the same of it. REQUIRES: a valid one.
std::string describe(const Channel& channel);

// CreateTrainingJob's InputDataConfig: a JSON array of channels, or an object that has one of that
// name. Members that say nothing of the data are passed over.
Result<std::vector<Channel>> parse_input_data_config(std::string_view json);

// A manifest: [{"prefix": "s3://bucket/path/"}, "one", "two/three"]
// https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_S3DataSource.html
struct Manifest {
  S3Location prefix;
  std::vector<std::string> keys;  // whole ones, of the prefix's bucket
};
Result<Manifest> parse_manifest(std::string_view json);

// One line of an augmented manifest: for each attribute the object that "...-ref" names, or the
// value itself as it is written (a text without its quotes).
struct ManifestEntry {
  std::optional<S3Location> object;
  std::string value;
};
Result<std::vector<ManifestEntry>> parse_augmented_line(std::string_view line,
                                                        const std::vector<std::string>& attributes);

}  // namespace spotter::wire

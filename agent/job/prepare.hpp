// `prepare:` of job.yaml: what is on the job's volume before anything trains.
#pragma once

#include "agent/job/job.hpp"
#include "agent/job/reader.hpp"

namespace spotter::config {

//   prepare:
//     - {from: s3://bucket/prefix/, to: data}                 each object where its key says
//     - {from: https://host/mnist.gz, to: data/mnist, sha256: HEX}    a file, into that folder
//     - {from: /local/folder, to: data, via: s3://bucket/p}   or one file; by way of S3, where it
//                                                             is not on the machine that prepares
Reader::Take prepare(Reader& reader, std::vector<Source>& sources);

// What concerns other parts of the job, too. `root`: all of job.yaml.
void check_prepare(Reader& reader, const Node& root, const Job& job);

// What was asked to be brought, in short: the value of the volume's tag `spotter:prepared` begins
// with it once it was; behind it, when that was.
std::string digest_of(const std::vector<Source>& sources);

// For the process that brings it: `spotter host fill`.
struct FillRequest {
  std::string job, volume;
  std::string mount;
  std::string user;  // the trainer's
  std::vector<Source> sources;
};
std::string to_json(const FillRequest& request);
Result<FillRequest> parse_fill_request(const std::string& text);

}  // namespace spotter::config

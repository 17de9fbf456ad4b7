// `prepare:` of job.yaml: what is on the job's volume before anything trains.
#pragma once

#include "agent/config/reader.hpp"

namespace spotter::config {

//   prepare:
//     - {from: s3://bucket/prefix/, to: data}                 each object where its key says
//     - {from: https://host/mnist.gz, to: data/mnist, sha256: HEX}    a file, into that folder
//     - {from: /local/folder, to: data, via: s3://bucket/p}   or one file; by way of S3, where it
//     is
//                                                             not on the machine that prepares
Reader::Take prepare(Reader& reader, std::vector<Source>& sources);

// What concerns other parts of the job, too. `root`: all of job.yaml.
void check_prepare(Reader& reader, const Node& root, const Job& job);

}  // namespace spotter::config

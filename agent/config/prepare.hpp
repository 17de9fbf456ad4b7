// `prepare:` of job.yaml: what is copied onto the job's volume before any training.
#pragma once

#include <filesystem>

#include "agent/config/reader.hpp"

namespace spotter::config {

//   prepare:
//     - {from: s3://bucket/prefix/, to: data}                 each object at its key
//     - {from: https://host/mnist.gz, to: data/mnist, sha256: HEX}    a file, into that folder
//     - {from: /local/folder, to: data, via: s3://bucket/p}   or one file; through S3, unless it
//                                                             is on the machine that prepares
void read_prepare(Reader& reader, const Node& node, const std::string& path,
                  std::vector<Source>& sources);

// Checks that involve other parts of the job.
void check_prepare(Reader& reader, const Job& job);

// A digest of what is to be copied. Once that is done, the volume's tag `spotter:prepared` has it,
// followed by the time.
std::string digest_of(const std::vector<Source>& sources);

// The files of a folder by their names below it, or the one file; in order.
using LocalFiles = std::vector<std::pair<std::string, std::filesystem::path>>;
Result<LocalFiles> files_of(const std::filesystem::path& from);

}  // namespace spotter::config

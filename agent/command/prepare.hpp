// `spotter prepare`: the job's volume made, formatted and filled from a cheap instance, before a
// GPU is paid for. What it does with the volume keeps the rules of agent/README.md: it holds it by
// the attachment, claims a generation of its own before it writes, and keeps it until everybody
// could have seen that.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "agent/command/aws_calls.hpp"
#include "agent/config/job.hpp"

namespace CLI {
class App;
}

namespace spotter::command {

using Stopping = std::function<bool()>;

// What `spotter prepare` was asked to bring, in short: the value of the volume's tag
// spotter:prepared once it has, and when that was.
std::string digest_of(const std::vector<config::Source>& sources);
inline constexpr const char* prepared_tag = "spotter:prepared";

// --- prepare_volume.cpp: the volume, as EC2 has it ---

// Nothing of the job is at work, nor on its way between zones: else what is to be done about it.
// `self`: the instance that asks; empty: none. One volume, or none yet.
AwsResult<std::optional<wire::Volume>> free_volume(AwsCalls& calls, const config::Job& job,
                                                   const InstanceId& self);
// The device's name at EC2. Attached already to this instance is success.
AwsResult<std::string> attach(AwsCalls& calls, const wire::Volume& volume, const InstanceId& self,
                              const Stopping& stop);
// Before anything is written: a copy of what was there before loses.
AwsResult<void> claim(AwsCalls& calls, const config::Job& job, const VolumeId& volume);
// Until it is free. REQUIRES: nothing of it is mounted.
AwsResult<void> detach(AwsCalls& calls, const VolumeId& volume, const InstanceId& self);

// --- prepare_fill.cpp: the volume, as it is mounted ---

struct Filled {
  config::Source source;
  std::size_t files = 0;
  std::size_t fetched = 0;  // of them, now
  std::uint64_t bytes = 0;  // that came, now
};

// Each source's files in their folder, whole and durable, as `job.trainer.user`'s; what is there
// already is not fetched again. Then the manifest, .spotter/prepared.json. `said`: one line for
// each source that is there. REQUIRES: the folders of fill_folders() are there.
Result<std::vector<Filled>> fill(const config::Job& job, const VolumeId& volume,
                                 const Stopping& stop,
                                 const std::function<void(const std::string&)>& said);
std::vector<std::string> fill_folders(const config::Job& job);

// --- prepare_copy.cpp ---

struct CopyRequest {
  std::string from;    // a folder, or one file; read as who we are
  std::string to;      // a folder; written as `user`
  std::string ledger;  // what is whole: data/fetched.hpp
  std::string user;
};
// Of a folder by their names below it, or the one file; in order.
using LocalFiles = std::vector<std::pair<std::string, std::filesystem::path>>;
Result<LocalFiles> files_of(const std::filesystem::path& from);
// Written, made durable, read again from the disk and compared; a link is followed to a file, and
// not to a folder.
Result<Filled> copy_in(const CopyRequest& request, const Stopping& stop);

// --- prepare_send.cpp ---

// The files of a folder of this machine to `source.via`, on their way to another one: those that
// S3 has not got, or has of another size or older. How many.
Result<std::size_t> send(const config::Source& source, const std::atomic<bool>& stop);

void add_prepare(CLI::App& app, int& status);

}  // namespace spotter::command

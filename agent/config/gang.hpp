// `gang:` of job.yaml: one model on several machines.
#pragma once

#include "agent/config/reader.hpp"

namespace spotter::config {

// {size: 4, min: 2, at: s3://bucket/prefix, lease: 60s, stall: 10m, copy_every: 20}
void read_gang(Reader& reader, const Node& node, const std::string& path, Gang& gang);

// Appends the job's name to the prefix. Reports settings that a gang cannot have, or not yet.
void finish_gang(Reader& reader, Job& job);

// The command as torchrun's, with our rendezvous: `torchrun ...` and `python train.py ...` become
// `python -m spotter.torchrun ...`. Any other stays as it is, and starts that itself.
std::string with_torchrun(std::string_view command);

// The shell's line for the trainer of a gang's member: `program` is ours, `line` the trainer's own.
// `spotter gang` stands between: it has torchrun start the workers with those of the other
// machines. Returns `line` as it is for any other job. `replaced`: a fleet launches another machine
// in the place of this one.
std::string in_gang(const Job& job, const std::string& program, const std::string& line,
                    bool replaced = false);

// A machine's name as a member: of its letters, digits, dots, underscores and dashes.
std::string member_name(std::string_view host);

// The job as this machine, a member of that name, runs it. REQUIRES: job.gang.
void join_gang(Job& job, std::string_view name);

}  // namespace spotter::config

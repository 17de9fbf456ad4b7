// The user data of an instance: scripts/user-data with this job's values. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "agent/base/result.hpp"
#include "agent/job/job.hpp"

namespace spotter::launch {

// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/instancedata-add-user-data.html: "limited to
// 16 KB, in raw form, before it is base64-encoded".
inline constexpr std::size_t user_data_limit = 16U * 1024;

// What the instance does.
enum class Work : std::uint8_t { Serve, Prepare };

// `files`: the files of /etc/spotter, by name: job.yaml and those that it refers to. Fails when the
// result exceeds EC2's limit. REQUIRES: job.launch.
Result<std::string> user_data(const config::Job& job,
                              const std::map<std::string, std::string>& files,
                              Work work = Work::Serve);

}  // namespace spotter::launch

// The user data of an instance: scripts/user-data with this job's values. Pure.
#pragma once

#include "agent/aws/formats/s3.hpp"
#include "agent/config/job.hpp"

namespace spotter::launch {

// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/instancedata-add-user-data.html: "limited to
// 16 KB, in raw form, before it is base64-encoded".
inline constexpr std::size_t user_data_limit = 16U * 1024;

enum class Work : std::uint8_t { Serve, Prepare };

// A package of the launching machine, and where it is put. The key has the checksum in it: another
// build is another object, and none is ever overwritten.
struct SentPackage {
  std::string file;  // spotter_1.0_amd64.deb, with its folder
  wire::S3Location where;
  std::string sha256;  // lower-case hexadecimal digits
};
// `prefix`: launch.package's s3, which ends with '/'. REQUIRES: that it is a place in S3.
wire::S3Location place_of(const std::string& prefix, const std::string& file_name,
                          const std::string& sha256);
// The command of `aws` that sends it; S3 compares the bytes with the checksum.
std::string send_command(const SentPackage& package);
// The bytes of a checksum, from its hexadecimal digits.
std::string bytes_of_hex(std::string_view digits);

// With gzip; cloud-init unpacks it before it runs, so the copy for each boot is plain.
std::string compressed(const std::string& script);
// The script of user_data() with the time of the launch, in seconds since 1970.
std::string stamped(std::string script, std::int64_t launched);

// `files`: the files of /etc/spotter, by name: job.yaml and those that it refers to. The instance
// installs those of the `packages`, at most one a kind, that fit its system. Fails when the result
// exceeds EC2's limit, compressed. REQUIRES: job.launch.
Result<std::string> user_data(const config::Job& job,
                              const std::map<std::string, std::string>& files,
                              Work work = Work::Serve,
                              const std::vector<SentPackage>& packages = {});

}  // namespace spotter::launch

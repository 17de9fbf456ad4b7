// Writes the job.yaml of `spotter init`: answers -> text. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace spotter::command {

// AWS's image with PyTorch in the virtual environment /opt/pytorch, for NVIDIA's GPUs on x86-64.
// https://docs.aws.amazon.com/dlami/latest/devguide/what-is-dlami.html (release notes: SSM
// parameter, python_location, supported_ec2_instances)
inline constexpr std::string_view deep_learning_image =
    "resolve:ssm:/aws/service/deeplearning/ami/x86_64/"
    "oss-nvidia-driver-gpu-pytorch-2.10-ubuntu-24.04/latest/ami-id";
inline constexpr std::string_view ubuntu_image =
    "resolve:ssm:/aws/service/canonical/ubuntu/server/24.04/stable/current/amd64/hvm/ebs-gp3/"
    "ami-id";

// Placeholders, until a person puts in their own.
inline constexpr std::string_view nobodys_repository = "https://github.com/me/train.git";
inline constexpr std::string_view nobodys_revision = "0123456789abcdef0123456789abcdef01234567";

// The answers that a person is asked for. The defaults make a valid job.
struct JobAnswers {
  std::string name = "training";
  std::string repository{nobodys_repository};  // ".": the files of the folder here
  std::string revision{nobodys_revision};
  std::string command = "python3 train.py";
  std::string user;    // empty: spotter, the package's own
  std::string result;  // empty: none
  std::vector<std::string> types{"g5.xlarge", "g6.xlarge", "g4dn.xlarge"};
  std::vector<std::string> zones{"us-west-2a", "us-west-2b"};
  std::string image{deep_learning_image};
  std::string bucket;               // its name; empty: none
  std::string volume_size = "100";  // "none": no volume, checkpoints are kept in the bucket

  bool sends_folder() const { return repository == "."; }
  bool in_bucket() const { return volume_size == "none"; }
};

// Valid for config::parse_job() if the answers are. Every line has a comment, behind it or above.
std::string job_text(const JobAnswers& answers);

// The image for all of these types; empty: none that is known here fits them all.
std::string_view image_for(const std::vector<std::string>& types);
// `trainer.gpus`: "0", "1", or "auto" where the types differ, or have more.
std::string_view gpus_of(const std::vector<std::string>& types);
// A valid `job:` that resembles this text: a repository, a folder's name.
std::string job_name_for(std::string_view text);
// A git remote as an instance can fetch it without a key: git@github.com:me/x.git ->
// https://github.com/me/x.git, without user and password. Empty: it leads nowhere from there.
std::string web_address(std::string_view remote);

}  // namespace spotter::command

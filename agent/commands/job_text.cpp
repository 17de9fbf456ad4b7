#include "agent/commands/job_text.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <nlohmann/json.hpp>

#include "agent/aws/formats/services.hpp"

namespace spotter::command {
namespace {

// supported_ec2_instances of the image's release notes.
constexpr std::string_view nvidia =
    " g4dn g5 g6 g6e g6f gr6 g7 g7e p4d p4de p5 p5e p5en p6-b200 p6-b300 ";
// https://docs.aws.amazon.com/ec2/latest/instancetypes/ac.html: these sizes of the G families have
// one GPU each.
constexpr std::array<std::string_view, 5> with_one_gpu = {"xlarge", "2xlarge", "4xlarge", "8xlarge",
                                                          "16xlarge"};

bool is_letter_or_digit(char each) { return std::isalnum(static_cast<unsigned char>(each)) != 0; }

std::string_view family_of(std::string_view type) { return type.substr(0, type.find('.')); }

bool is_nvidia(const std::string& type) {
  return nvidia.find(' ' + std::string(family_of(type)) + ' ') != nvidia.npos;
}

bool has_one_gpu(const std::string& type) {
  const auto dot = type.find('.');
  if (!is_nvidia(type) || !type.starts_with('g') || dot == type.npos) return false;
  const auto size = std::string_view(type).substr(dot + 1);
  return std::ranges::find(with_one_gpu, size) != with_one_gpu.end();
}

// Neither ARM (a `g` behind the generation's number, as in m7g and c6gd; a1) nor an accelerator.
bool is_plain_x86(const std::string& type) {
  const auto family = family_of(type);
  const auto digit = family.find_first_of("0123456789");
  const auto* quota = wire::spot_quota_of(type);
  if (digit == family.npos || quota == nullptr || family == "a1") return false;
  return family.find('g', digit) == family.npos && quota->name.starts_with("All Standard");
}

// Written so that YAML reads this text and nothing else, also within braces and brackets.
std::string quoted(const std::string& text) {
  constexpr std::string_view also = " /._=@+-:";
  const bool plain = !text.empty() && (is_letter_or_digit(text.front()) || text.front() == '/') &&
                     text.back() != ' ' && text.back() != ':' && text.find(": ") == text.npos &&
                     std::ranges::all_of(text, [&](char each) {
                       return is_letter_or_digit(each) || also.find(each) != also.npos;
                     });
  if (plain) return text;
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string in_list(const std::vector<std::string>& items) {
  std::string text;
  for (const std::string& each : items) text += (text.empty() ? "" : ", ") + quoted(each);
  return "[" + text + "]";
}

struct Lines {
  void add(const std::string& line, const std::string& comment) {
    constexpr std::size_t column = 46;
    if (line.size() + 2 > column) {  // above it, as far indented
      text += std::string(line.find_first_not_of(' '), ' ') + "# " + comment + ":\n" + line + "\n";
      return;
    }
    text += line + std::string(column - line.size(), ' ') + "# " + comment + "\n";
  }
  std::string text;
};

void add_storage(Lines& lines, const JobAnswers& answers) {
  if (answers.in_bucket())
    return lines.add("  s3: " + quoted("s3://" + answers.bucket + "/jobs"),
                     "a bucket and no volume: an instance in any zone brings them from there");
  lines.add("  ebs:", "an EBS volume: it is brought to where the job goes on");
  lines.add("    tag: {Name: " + quoted(answers.name) + "}",
            "the one volume with this tag; `spotter launch` makes it");
  lines.add("    mount: /mnt/spotter", "where an instance mounts it");
}

// A job that has run without one keeps its waits (spotter-storage(7)): this one has not.
void add_fence(Lines& lines, const JobAnswers& answers) {
  if (answers.in_bucket()) return;
  const bool known = !answers.bucket.empty();
  lines.add(known ? "fence: " + quoted("s3://" + answers.bucket + "/fence")
                  : "# fence: s3://my-bucket/fence",
            "who may use the volume is decided there: a move waits for no list of EC2's");
}

void add_code(Lines& lines, const JobAnswers& answers) {
  lines.add("code:", "which program is trained");
  if (answers.sends_folder())
    return lines.add("  folder: .",
                     "the files here, as they are at each launch, but what .gitignore and "
                     ".spotterignore name");
  lines.add("  repository: " + quoted(answers.repository), "each instance fetches it");
  lines.add("  # token: ssm:/spotter/git-token", "if private: the SSM parameter with a token");
  lines.add("  revision: " + quoted(answers.revision),
            "a full commit id, no branch: every instance trains the same code; push it before");
}

void add_trainer(Lines& lines, const JobAnswers& answers) {
  lines.add("trainer:", "how it is run");
  lines.add("  command: " + quoted(answers.command), "in the checkout, by the user's login shell");
  if (answers.user.empty())
    lines.add("  # user: alice", "who runs it; default: spotter, a user of its own without rights");
  else
    lines.add("  user: " + quoted(answers.user), "who runs it; nobody who may use sudo");
  if (answers.image == deep_learning_image)
    lines.add("  environment: venv /opt/pytorch", "where this image has Python with PyTorch");
  else
    lines.add("  environment: none", "or where the image has Python: conda NAME, venv PATH");
  lines.add("  gpus: " + std::string(gpus_of(answers.types)),
            "a machine with fewer that work is given back; auto: all that it has");
  if (answers.result.empty())
    lines.add("  # result: weights.pt", "finished only if this file is there, in the storage");
  else
    lines.add("  result: " + quoted(answers.result),
              "finished only if this file is there, in the storage");
}

// Says from where an instance gets Spotter: the image of the answers has none.
void add_package(Lines& lines, const JobAnswers& answers) {
  const bool known = !answers.bucket.empty();
  const std::string bucket = known ? answers.bucket : "my-bucket";
  lines.add(
      (known ? "  package: {s3: \"s3://" : "  # package: {s3: \"s3://") + bucket + "/packages/\"}",
      "how instances get Spotter: `spotter launch` puts there what scripts/package made");
}

void add_launch(Lines& lines, const JobAnswers& answers) {
  lines.add("launch:", "what `spotter launch` asks AWS for");
  lines.add("  image: " + quoted(answers.image), "what instances start from; latest: each time");
  lines.add("  instance_types: " + in_list(answers.types), "any of these, the more the better");
  lines.add("  zones: " + in_list(answers.zones),
            answers.in_bucket() ? "it goes on in any of them"
                                : "it goes on in any of them; the volume in the first");
  lines.add("  profile: spotter", "the instances' role, which `spotter iam roles` makes");
  if (!answers.in_bucket())
    lines.add("  volume: {size: " + quoted(answers.volume_size) + "}",
              "GiB, for checkpoints and log");
  add_package(lines, answers);
}

}  // namespace

std::string job_text(const JobAnswers& answers) {
  Lines lines;
  lines.text =
      "# A training job on EC2 spot instances, for spotter(1); job.yaml(5) has every key.\n"
      "# `spotter agent --check --job FILE` says what is wrong with it.\n";
  lines.add("job: " + quoted(answers.name), "its name at AWS: [a-z0-9-], at most 63");
  lines.add("storage:", "where checkpoints, result and log are kept");
  add_storage(lines, answers);
  add_fence(lines, answers);
  add_code(lines, answers);
  add_trainer(lines, answers);
  add_launch(lines, answers);
  if (answers.bucket.empty())
    lines.add("# publish: s3://my-bucket/spotter",
              "`spotter status --job` then shows steps and loss");
  else
    lines.add("publish: " + quoted("s3://" + answers.bucket + "/spotter"),
              "`spotter status --job` shows steps and loss");
  return lines.text;
}

std::string_view image_for(const std::vector<std::string>& types) {
  if (std::ranges::all_of(types, is_nvidia)) return deep_learning_image;
  if (std::ranges::all_of(types, is_plain_x86)) return ubuntu_image;
  return {};
}

std::string_view gpus_of(const std::vector<std::string>& types) {
  if (std::ranges::all_of(types, has_one_gpu)) return "1";
  return std::ranges::all_of(types, is_plain_x86) ? "0" : "auto";
}

std::string job_name_for(std::string_view text) {
  constexpr std::size_t longest = 63;
  while (text.ends_with('/')) text.remove_suffix(1);
  if (text.ends_with(".git")) text.remove_suffix(4);
  std::string name;
  for (const char each : text.substr(text.find_last_of("/:") + 1)) {
    const auto letter = static_cast<unsigned char>(each);
    if (letter < 128 && is_letter_or_digit(each))
      name += static_cast<char>(std::tolower(letter));
    else if (!name.empty() && name.back() != '-')
      name += '-';
  }
  name.resize(std::min(name.size(), longest));
  while (name.ends_with('-')) name.pop_back();
  return name.empty() ? "training" : name;
}

std::string web_address(std::string_view remote) {
  std::string scheme = "https://";
  std::string_view rest;
  bool drops_port = false;  // it is ssh's or git's
  if (const auto end = remote.find("://"); end != remote.npos) {
    const auto given = remote.substr(0, end);
    if (given == "http") scheme = "http://";
    drops_port = given == "ssh" || given == "git+ssh" || given == "git";
    if (!drops_port && given != "http" && given != "https") return {};
    rest = remote.substr(end + 3);
  } else {  // [user@]host:path, as ssh has it
    const auto colon = remote.find(':');
    if (colon == remote.npos || remote.find('/') < colon) return {};
    const std::string path(remote.substr(colon + 1));
    const std::string host(remote.substr(0, colon));
    return web_address("ssh://" + host + (path.starts_with('/') ? "" : "/") + path);
  }
  std::string host(rest.substr(0, rest.find('/')));
  const std::string path(rest.substr(host.size()));
  host.erase(0, host.rfind('@') == host.npos ? 0 : host.rfind('@') + 1);
  if (drops_port) host = host.substr(0, host.find(':'));
  // A query may be a token; with a line break or brackets it would be no address.
  const bool plain = (host + path).find_first_of("?#@[] \t\r\n") == std::string::npos;
  return host.empty() || path.size() < 2 || !plain ? "" : scheme + host + path;
}

}  // namespace spotter::command

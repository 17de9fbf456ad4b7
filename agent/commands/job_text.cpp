#include "agent/commands/job_text.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <nlohmann/json.hpp>

#include "agent/aws/formats/services.hpp"
#include "agent/base/text.hpp"
#include "agent/commands/job_template.hpp"

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
  std::vector<std::string> all;
  std::ranges::transform(items, std::back_inserter(all), quoted);
  return "[" + joined(all) + "]";
}

// Behind the line, or above it and as far indented.
std::string with_comment(const std::string& line, std::string_view comment) {
  constexpr std::size_t column = 46;
  if (line.size() + 2 > column)
    return std::string(line.find_first_not_of(' '), ' ') + "# " + std::string(comment) + ":\n" +
           line + "\n";
  return line + std::string(column - line.size(), ' ') + "# " + std::string(comment) + "\n";
}

}  // namespace

std::string job_text(const JobAnswers& answers) {
  const std::string bucket = "s3://" + answers.bucket;
  // A job that has run without a fence keeps its waits (spotter-storage(7)): this one has not.
  const std::map<std::string_view, bool> is{{"bucket", !answers.bucket.empty()},
                                            {"volume", !answers.in_bucket()},
                                            {"folder", answers.sends_folder()},
                                            {"user", !answers.user.empty()},
                                            {"pytorch", answers.image == deep_learning_image},
                                            {"result", !answers.result.empty()}};
  const std::map<std::string_view, std::string> values{
      {"NAME", quoted(answers.name)},
      {"HOMES", quoted(bucket + "/jobs")},
      {"FENCE", quoted(bucket + "/fence")},
      {"PUBLISH", quoted(bucket + "/spotter")},
      {"BUCKET", answers.bucket},
      {"REPOSITORY", quoted(answers.repository)},
      {"REVISION", quoted(answers.revision)},
      {"COMMAND", quoted(answers.command)},
      {"USER", quoted(answers.user)},
      {"GPUS", std::string(gpus_of(answers.types))},
      {"RESULT", quoted(answers.result)},
      {"IMAGE", quoted(answers.image)},
      {"TYPES", in_list(answers.types)},
      {"ZONES", in_list(answers.zones)},
      {"SIZE", quoted(answers.volume_size)}};
  std::string text;
  for (std::string_view rest = job_template; !rest.empty();) {
    std::string_view written = take_until(rest, '\n');
    bool wanted = true;
    for (std::string_view conditions = take_until(written, '|'); !conditions.empty();) {
      std::string_view one = take_until(conditions, ' ');
      const bool is_not = one.starts_with('!');
      wanted = wanted && is.at(one.substr(is_not ? 1 : 0)) != is_not;
    }
    if (!wanted) continue;
    const auto comment = written.rfind(" # ");
    std::string line;
    for (std::string_view before = written.substr(0, comment); !before.empty();) {
      line += take_until(before, '@');
      if (!before.empty()) line += values.at(take_until(before, '@'));
    }
    text += comment == written.npos ? line + "\n" : with_comment(line, written.substr(comment + 3));
  }
  return text;
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

#include "agent/config/values.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <csignal>
#include <limits>

#include "agent/aws/formats/iam.hpp"
#include "agent/aws/formats/partition.hpp"
#include "agent/aws/formats/tags.hpp"
#include "agent/base/text.hpp"
#include "agent/config/git_server.hpp"
#include "agent/config/scalars.hpp"

namespace spotter::config {
namespace {

constexpr std::string_view digits = "0123456789";
constexpr std::string_view lower = "abcdefghijklmnopqrstuvwxyz";
constexpr std::string_view upper = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
const std::string letters = std::string(lower) + std::string(upper);

bool only(std::string_view text, std::string_view allowed) {
  return text.find_first_not_of(allowed) == text.npos;
}

bool has_line_break(std::string_view text) { return text.find_first_of("\r\n") != text.npos; }

bool has_part(std::string_view path, std::string_view part) {
  while (true) {
    const auto slash = path.find('/');
    if (path.substr(0, slash) == part) return true;
    if (slash == path.npos) return false;
    path.remove_prefix(slash + 1);
  }
}

Result<JobName> parse_job_name(std::string_view text) {
  const bool good = !text.empty() && JobName::fits(text) &&
                    only(text, std::string(lower) + std::string(digits) + "-");
  if (good) return JobName(text);
  return failure(in_quotes(text) + " is not a job's name: 1 to 63 of a-z, 0-9 and '-'");
}

Result<std::string> parse_mount_point(std::string_view text) {
  if (text.empty() || text[0] != '/')
    return failure(in_quotes(text) + " is relative; give an absolute path");
  while (text.size() > 1 && text.back() == '/') text.remove_suffix(1);
  if (has_part(text, "..") || has_line_break(text))
    return failure(in_quotes(text) + " must not have '..' or a line break in it");
  // Mounting over one of these would make the machine unusable.
  constexpr std::array system{"/",     "/bin",  "/boot", "/dev", "/etc", "/home", "/lib", "/lib64",
                              "/proc", "/root", "/run",  "/srv", "/sys", "/tmp",  "/usr", "/var"};
  if (std::find(system.begin(), system.end(), text) != system.end())
    return failure(in_quotes(text) + " is a directory of the system; give one of your own");
  return std::string(text);
}

Result<std::string> parse_path_below_mount(std::string_view text) {
  if (text.empty() || has_line_break(text)) return failure("expected a path without a line break");
  if (text[0] == '/')
    return failure(in_quotes(text) + " is absolute; give it relative to the storage's mount");
  if (has_part(text, "..")) return failure(in_quotes(text) + " must not leave the mount with '..'");
  return std::string(text);
}

// `what`: "file's name, in any subfolder".
Result<std::string> parse_patterns(std::string_view text, const char* such, const char* what) {
  if (only(text, " ") || has_line_break(text))
    return failure(std::string("expected patterns such as ") + such);
  if (text.find('/') == text.npos) return std::string(text);
  return failure(in_quotes(text) + " has a '/' in it; a pattern is of a " + what);
}
Result<std::string> parse_file_patterns(std::string_view text) {
  return parse_patterns(text, "*.h5", "file's name, in any subfolder");
}
Result<std::string> parse_folder_patterns(std::string_view text) {
  return parse_patterns(text, "checkpoint-*", "folder's name, directly in the directory");
}

Result<std::string> parse_set_patterns(std::string_view text) {
  std::string rest(text);
  constexpr std::string_view step = "{step}";
  bool numbered = false;
  for (auto at = rest.find(step); at != rest.npos; at = rest.find(step, at)) {
    rest.replace(at, step.size(), "0");
    numbered = true;
  }
  if (only(text, " ") || has_line_break(text) || !numbered)
    return failure("expected the names of one save, such as model_{step}.pt optim_{step}.pt");
  if (rest.find_first_of("{}") == rest.npos) return std::string(text);
  return failure(in_quotes(text) + " has braces other than those of {step}");
}

// Refuses git's option injection (`--upload-pack=...`) and transports that run a command.
Result<std::string> parse_repository(std::string_view text) {
  if (text.empty() || has_line_break(text)) return failure("expected a git URL or a path");
  const auto scheme = text.find("://");
  const auto authority = text.substr(scheme == text.npos ? 0 : scheme + 3);
  const auto user = authority.substr(0, authority.find('/'));
  const auto at = user.rfind('@');
  if (scheme != text.npos && at != user.npos && user.substr(0, at).find(':') != user.npos)
    return failure(
        "the URL has a password in it, which git would store and print; "
        "take it out and name it in code.token, for example file:/etc/spotter/git-token");
  if (text[0] == '-' || (text.find("::") != text.npos && !wire::codecommit_repository(text)))
    return failure(in_quotes(text) + " is not a git URL or a path");
  return std::string(text);
}

Result<Duration> parse_stall(std::string_view text) {
  if (text == "never" || text == "0" || text == "0s") return Duration(0);
  auto stall = duration.parse(text);
  if (!stall) return failure(stall.error().message + "; `never` turns it off");
  if (*stall >= std::chrono::seconds(30)) return stall;
  return failure(in_quotes(text) +
                 ": a step may take long, and a checkpoint longer; wait for at least 30s, or write "
                 "`never`");
}
bool is_line(std::string_view text) { return !text.empty() && !has_line_break(text); }

Result<std::string> parse_commit_id(std::string_view text) {
  const std::string id = lower_case(text);
  const bool whole = only(id, "0123456789abcdef");
  if (id.size() == 40 && whole) return id;
  if (id.size() == 64 && whole)
    return failure(in_quotes(text) +
                   " is of a repository with SHA-256 ids, which Spotter does "
                   "not read: those with ids of 40 digits only");
  return failure(in_quotes(text) +
                 " is not 40 hexadecimal digits; a branch name moves; give the full commit id: "
                 "git rev-parse HEAD");
}

bool is_command(std::string_view text) { return !only(text, " \t\r\n"); }

bool is_user_name(std::string_view text) {
  return !text.empty() && text.size() <= 32 && only(text.substr(0, 1), letters + "_") &&
         only(text, letters + std::string(digits) + "_.-");
}

// Milliseconds in one `unit`; 0: it is no unit.
std::int64_t milliseconds(std::string_view unit) {
  constexpr std::int64_t second = 1000;
  constexpr std::int64_t hour = 3600 * second;
  if (unit == "ms") return 1;
  if (unit == "s") return second;
  if (unit == "m") return 60 * second;
  if (unit == "h") return hour;
  if (unit == "d") return 24 * hour;
  return 0;
}

Result<Duration> parse_duration(std::string_view text) {
  const auto wrong = [text] {
    return failure(in_quotes(text) +
                   " is not a duration; write a number and a unit (ms, s, m, h, d), "
                   "as in 90s, 5m or 2h30m");
  };
  constexpr std::int64_t limit = 1000LL * 24 * 3600 * 1000;  // 1000 days: more is a typing mistake
  std::int64_t sum = 0;
  std::int64_t last_unit = std::numeric_limits<std::int64_t>::max();
  std::string_view rest = text;
  while (!rest.empty()) {
    std::int64_t number = 0;
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), number);
    if (error != std::errc() || number < 0) return wrong();
    rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
    if (rest.empty() && last_unit == std::numeric_limits<std::int64_t>::max())
      return failure(in_quotes(text) + " has no unit; write " + std::string(text) + "s, " +
                     std::string(text) + "m or, for example, 2h30m");
    const auto unit_size = std::min(rest.find_first_of(digits), rest.size());
    const std::int64_t unit = milliseconds(rest.substr(0, unit_size));
    if (unit == 0 || unit >= last_unit) return wrong();
    if (number > limit / unit || sum + number * unit > limit)
      return failure(in_quotes(text) + " is more than 1000 days");
    sum += number * unit;
    last_unit = unit;
    rest.remove_prefix(unit_size);
  }
  if (text.empty()) return wrong();
  if (sum == 0) return failure(in_quotes(text) + " is no time at all");
  return Duration(sum);
}

Result<int> parse_gpu_count(std::string_view text) {
  if (text == "auto") return all_gpus;
  const auto number = number_of_text<int>(text);
  if (number && *number >= 0 && *number <= 64) return *number;
  return failure("expected a whole number from 0 to 64, or auto, found " + in_quotes(text));
}

// True: a number from 1 to `most`, followed by `unit`.
bool is_limit(std::string_view text, std::string_view unit, std::uint64_t most) {
  if (!text.ends_with(unit)) return false;
  text.remove_suffix(unit.size());
  const auto number = number_of_text<std::uint64_t>(text);
  return number && *number >= 1 && *number <= most;
}

bool is_memory_amount(std::string_view text) {
  constexpr std::uint64_t most = 1U << 30;  // in bytes it must fit into 64 bits
  return is_limit(text, "K", most) || is_limit(text, "M", most) || is_limit(text, "G", most) ||
         is_limit(text, "%", 100);
}
bool is_cpu_quota(std::string_view text) { return is_limit(text, "%", 100'000); }
bool is_cpu_weight(std::string_view text) { return is_limit(text, "", 10'000); }

// https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_iam-quotas.html
Result<std::string> parse_iam(std::string_view text, const std::string& what,
                              const std::string& kind) {
  const auto colons = std::count(text.begin(), text.end(), ':');
  const bool arn = text.starts_with("arn:aws") && colons == 5 && text.find(":iam::") != text.npos &&
                   text.find(":" + kind + "/") != text.npos;
  const wire::IamName name = wire::iam_name(text);
  if (!arn && (text.find_first_of(":/") != text.npos))
    return failure("expected " + what + "'s name or its ARN (arn:aws:iam::123456789012:" + kind +
                   "/NAME), found " + in_quotes(text));
  if (std::string wrong = wire::wrong_iam_name(name, wire::longest_role_name); !wrong.empty())
    return failure(std::move(wrong));
  return std::string(text);
}
Result<std::string> parse_role(std::string_view text) { return parse_iam(text, "a role", "role"); }
Result<std::string> parse_instance_profile(std::string_view text) {
  return parse_iam(text, "an instance profile", "instance-profile");
}

Result<double> parse_positive_number(std::string_view text) {
  const auto number = number_of_text<double>(text);
  if (number && std::isfinite(*number) && *number > 0) return *number;
  return failure("expected a number above 0, found " + in_quotes(text));
}

// arn:aws:sns:us-west-2:123456789012:training
Result<std::string> parse_topic(std::string_view text) {
  const auto sns = text.find(":sns:");
  if (text.starts_with("arn:") && sns != text.npos && std::ranges::count(text, ':') == 5 &&
      !has_line_break(text)) {
    const std::string_view partition = text.substr(4, sns - 4), from = text.substr(sns + 5);
    const std::string_view region = from.substr(0, from.find(':'));
    const std::string_view its = wire::partition_of(region).name;
    const bool known = !region.empty() && Region::fits(region) &&
                       only(region, std::string(lower) + std::string(digits) + "-");
    if (known && its == partition) return std::string(text);
    if (known)
      return failure("the topics of " + std::string(region) + " have the partition " +
                     std::string(its) + ": expected arn:" + std::string(its) +
                     ":sns:" + std::string(from) + ", found " + in_quotes(text));
  }
  return failure("expected the ARN of a topic (arn:aws:sns:REGION:ACCOUNT:NAME), found " +
                 in_quotes(text));
}

bool is_notified_event(std::string_view text) {
  constexpr std::array events{"notice", "resumed", "finished", "failed", "deadline"};
  return std::ranges::find(events, text) != events.end();
}

bool is_fleet_id(std::string_view text) { return is_line(text) && FleetId::fits(text); }
bool is_any(std::string_view) { return true; }
bool is_tag_value(std::string_view text) { return text.size() <= 256 && !has_line_break(text); }

}  // namespace

// The expectations are literals and the parsers functions, so all is initialised at compile time.
const Scalar<JobName> job_name{"a name", parse_job_name};
const Scalar<std::string> mount_point{"an absolute path", parse_mount_point};
const Scalar<std::string> path_below_mount{"a path below the mount", parse_path_below_mount};
const Scalar<std::string> file_patterns{"patterns of file names such as *.h5", parse_file_patterns};
const Scalar<std::string> folder_patterns{"patterns of folder names such as checkpoint-*",
                                          parse_folder_patterns};
const Scalar<std::string> set_patterns{
    "the names of one save, such as model_{step}.pt optim_{step}.pt", parse_set_patterns};
const Scalar<std::string> repository{"a git URL or a path", parse_repository};
const Scalar<Duration> stall_duration{"never or a duration such as 10m", parse_stall};
const Scalar<std::string> setup_command{.expected = "a command", .fits = is_command};
const Scalar<std::string> code_folder_path{.expected = "a folder, such as .", .fits = is_line};
const Scalar<std::string> commit_id{"a full commit id", parse_commit_id};
const Scalar<SecretReference> secret_reference{"file:/PATH, env:NAME or ssm:/NAME",
                                               parse_secret_reference};
const Scalar<std::string> command{.expected = "a command line", .fits = is_command};
const Scalar<std::string> user_name{.expected = "a user's name", .fits = is_user_name};
const Scalar<PythonEnvironment> python_environment{"none, conda NAME or venv PATH",
                                                   parse_python_environment};
const Scalar<std::optional<int>> stop_signal{.expected = "a signal such as SIGTERM, or none",
                                             .choices = {{"SIGTERM", SIGTERM},
                                                         {"SIGINT", SIGINT},
                                                         {"SIGUSR1", SIGUSR1},
                                                         {"SIGUSR2", SIGUSR2},
                                                         {"SIGHUP", SIGHUP},
                                                         {"none", std::nullopt}}};
const Scalar<Duration> duration{"a duration such as 90s or 2h30m", parse_duration};
const Scalar<int> attempts{"a whole number from 1 to 1000", parse_between<1, 1000>};
const Scalar<int> gpu_count{"a whole number from 0 to 64, or auto", parse_gpu_count};
const Scalar<bool> cache_place{.expected = "instance-store or storage",
                               .choices = {{"instance-store", true}, {"storage", false}}};
const Scalar<std::string> memory_amount{.expected = "an amount of memory such as 48G or 90%",
                                        .fits = is_memory_amount};
const Scalar<std::string> cpu_quota{.expected = "a share of one CPU's time such as 400%",
                                    .fits = is_cpu_quota};
const Scalar<std::string> cpu_weight{.expected = "a whole number from 1 to 10000",
                                     .fits = is_cpu_weight};
const Scalar<std::string> role{"a role's name or ARN", parse_role};
const Scalar<std::string> instance_profile{"an instance profile's name or ARN",
                                           parse_instance_profile};
const Scalar<bool> imds_access{.expected = "allow or refuse",
                               .choices = {{"refuse", false}, {"allow", true}}};
const Scalar<bool> trust{.expected = "administrator", .choices = {{"administrator", true}}};
const Scalar<GiveUp> give_up{.expected = "scale-to-zero, hold or cancel",
                             .choices = {{"scale-to-zero", GiveUp::ScaleToZero},
                                         {"hold", GiveUp::Hold},
                                         {"cancel", GiveUp::Cancel}}};
const Scalar<double> positive_number{"a number above 0", parse_positive_number};
const Scalar<std::string> topic{"a topic's ARN", parse_topic};
const Scalar<std::string> notified_event{
    .expected = "notice, resumed, finished, failed or deadline", .fits = is_notified_event};
const Scalar<FleetKind> fleet_kind{
    .expected = "spot-fleet, ec2-fleet or auto-scaling-group",
    .choices = {{"spot-fleet", FleetKind::SpotFleet},
                {"ec2-fleet", FleetKind::Ec2Fleet},
                {"auto-scaling-group", FleetKind::AutoScalingGroup}}};
const Scalar<FleetId> fleet_id{
    .expected = "a fleet's id or a group's name, of at most 63 characters", .fits = is_fleet_id};
const Scalar<std::string> environment_value{.expected = "text", .fits = is_any};
const Scalar<std::string> tag_value{
    .expected = "a tag's value of at most 256 characters, without a line break",
    .fits = is_tag_value};

std::string wrong_variable_name(std::string_view name) {
  const bool good = !name.empty() && !only(name.substr(0, 1), digits) &&
                    only(name, letters + std::string(digits) + "_");
  if (!good) return in_quotes(name) + " is not a variable's name: letters, digits and '_'";
  // Users may also set how libspotter saves.
  for (const auto* ours :
       {"SPOTTER_CHECKPOINT_EVERY", "SPOTTER_CHECKPOINTS_FASTER", "SPOTTER_CHECKPOINTS_S3"})
    if (name == ours) return {};
  if (name == "NOTIFY_SOCKET" || name.starts_with("SPOTTER_"))
    return in_quotes(name) + " is set by Spotter itself";
  return {};
}

std::string wrong_tag_key(std::string_view key) {
  if (key.empty() || key.size() > 128) return "a tag's key has 1 to 128 characters";
  if (key.starts_with("aws:"))
    return in_quotes(key) + ": keys that begin with aws: are Amazon's own";
  if (key.starts_with(tag::prefix)) return in_quotes(key) + ": tags of spotter: are Spotter's own";
  return {};
}

}  // namespace spotter::config

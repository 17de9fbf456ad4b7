#include "agent/config/values.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <csignal>
#include <limits>

#include "agent/aws/formats/iam.hpp"
#include "agent/aws/formats/partition.hpp"
#include "agent/aws/formats/tags.hpp"
#include "agent/base/json.hpp"
#include "agent/base/text.hpp"
#include "agent/config/gang.hpp"
#include "agent/config/git_server.hpp"
#include "agent/config/prepare.hpp"
#include "agent/config/scalars.hpp"
#include "agent/config/storage.hpp"
#include "agent/config/sweep.hpp"

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
const Scalar<Duration> stall_duration{"never or a duration such as 10m", parse_stall};
const Scalar<std::string> commit_id{"a full commit id", parse_commit_id};
const Scalar<std::string> command{.expected = "a command line", .fits = is_command};
const Scalar<Duration> duration{"a duration such as 90s or 2h30m", parse_duration};
const Scalar<std::string> instance_profile{"an instance profile's name or ARN",
                                           parse_instance_profile};
const Scalar<double> positive_number{"a number above 0", parse_positive_number};
const Scalar<wire::S3Location> s3_prefix{"where in S3, such as s3://bucket/prefix",
                                         parse_s3_prefix};
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

namespace {

const Scalar<std::string> file_patterns{"patterns of file names such as *.h5", parse_file_patterns};
const Scalar<std::string> folder_patterns{"patterns of folder names such as checkpoint-*",
                                          parse_folder_patterns};
const Scalar<std::string> set_patterns{
    "the names of one save, such as model_{step}.pt optim_{step}.pt", parse_set_patterns};
const Scalar<std::string> repository{"a git URL or a path", parse_repository};
const Scalar<std::string> setup_command{.expected = "a command", .fits = is_command};
const Scalar<std::string> code_folder_path{.expected = "a folder, such as .", .fits = is_line};
const Scalar<SecretReference> secret_reference{"file:/PATH, env:NAME or ssm:/NAME",
                                               parse_secret_reference};
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
const Scalar<bool> imds_access{.expected = "allow or refuse",
                               .choices = {{"refuse", false}, {"allow", true}}};
const Scalar<bool> trust{.expected = "administrator", .choices = {{"administrator", true}}};
const Scalar<GiveUp> give_up{.expected = "scale-to-zero, hold or cancel",
                             .choices = {{"scale-to-zero", GiveUp::ScaleToZero},
                                         {"hold", GiveUp::Hold},
                                         {"cancel", GiveUp::Cancel}}};
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

// `channels:` of job.yaml: as short texts, as maps, or as SageMaker's InputDataConfig.

using Json = wire::Json;
using wire::Channel;

// Without the channel's name, which is in the path already.
std::string plain(const std::string& message, const std::string& name) {
  const std::string own = "channel " + name + ": ";
  return message.starts_with(own) ? message.substr(own.size()) : message;
}

std::optional<std::string> text_of(Reader& reader, const Node& node, const std::string& path) {
  std::optional<std::string> text;
  reader.expanded(text, environment_value)(node, path);
  return text;
}

Reader::Take source(Reader& reader, Channel& channel, bool& good) {
  return [&](const Node& node, const std::string& path) {
    const auto text = text_of(reader, node, path);
    const auto location = wire::parse_s3_url(text.value_or(""));
    good = good && location;
    if (location) channel.source = *location;
    if (text && !location) reader.problem(node, path, location.error().message);
  };
}

Reader::Take setting(Reader& reader, Channel& channel, bool& good) {
  return [&](const Node& node, const std::string& path) {
    const auto text = text_of(reader, node, path);
    const std::string name = path.substr(path.rfind('.') + 1);
    const auto set = text ? wire::set_setting(channel, name, *text) : failure("");
    good = good && set;
    if (text && !set) reader.problem(node, path, set.error().message);
  };
}

Reader::Take attributes(Reader& reader, Channel& channel, bool& good) {
  return [&](const Node& node, const std::string& path) {
    good = good && node.kind == Node::Kind::List;
    if (node.kind != Node::Kind::List)
      return reader.problem(node, path, "expected a list of names, found " + describe(node));
    for (const Node& each : node.items) {
      const auto name = text_of(reader, each, path);
      good = good && name;
      if (name) channel.attributes.push_back(*name);
    }
  };
}

// False: problems were reported.
bool read_map(Reader& reader, const Node& node, const std::string& path, Channel& channel) {
  bool good = true;
  Reader::Fields fields{{"source", required, source(reader, channel, good)},
                        {"attributes", optional, attributes(reader, channel, good)}};
  for (const auto* name : {"mode", "type", "compression", "record_wrapper", "shuffle_seed",
                           "distribution", "anonymous", "requester_pays", "content_type"})
    fields.push_back({name, optional, setting(reader, channel, good)});
  reader.map(node, path, fields);
  return good && !channel.source.bucket.empty();
}

void read_one(Reader& reader, const Node& key, const Node& value, const std::string& path,
              Channels& channels) {
  if (!wire::is_channel_name(key.text))
    return reader.problem(key, path, "a channel's name has letters, digits, `.`, `-` and `_`");
  Channel channel;
  channel.name = key.text;
  Result<Channel> read = failure("");
  if (value.kind == Node::Kind::Map) {
    if (!read_map(reader, value, path, channel)) return;
    read = wire::validated(std::move(channel));
  } else {
    const auto text = text_of(reader, value, path);
    if (!text) return;
    read = wire::parse_channel(key.text + "=" + *text);
  }
  if (!read) return reader.problem(value, path, plain(read.error().message, key.text));
  if (auto added = wire::add_channel(channels.all, std::move(*read)); !added)
    reader.problem(value, path, plain(added.error().message, key.text));
}

// {train: "s3://bucket/prefix,gzip"}, {train: {source: s3://bucket/prefix, mode: file, ...}}, a
// list as in CreateTrainingJob, or the path of a file with such a list.
Reader::Take channels(Reader& reader, Channels& channels) {
  const auto each = [&](const Node& key, const Node& value, const std::string& path) {
    read_one(reader, key, value, path, channels);
  };
  return [&, each](const Node& node, const std::string& path) {
    if (node.kind == Node::Kind::Text) {
      channels.document = text_of(reader, node, path).value_or("");
      if (channels.document.empty() || channels.document.starts_with("s3://"))
        reader.problem(node, path, "channels have names: {train: s3://bucket/prefix}");
    } else if (node.kind == Node::Kind::List) {
      // Numbers stay texts.
      const auto text = [](const Node& leaf) -> Json { return leaf.text; };
      auto read = wire::parse_input_data_config(wire::json_text(json_of<Json>(node, text)));
      if (!read) return reader.problem(node, path, read.error().message);
      channels.all = std::move(*read);
    } else {
      reader.pairs("channels, such as {train: s3://bucket/prefix}", each)(node, path);
    }
  };
}

// `claims:` of job.yaml: where machines that share work record who has which experiment.

// Several writes to S3, each with retries, must fit into a lease.
const Scalar<Duration> lease{"a duration such as 60s", parse_lease<1>};

// {at: s3://bucket/prefix, lease: 60s}
void read_claims(Reader& reader, const Node& node, const std::string& path, Claims& claims) {
  reader.map(node, path,
             {{"at", required, reader.expanded(claims.at, s3_prefix)},
              {"lease", optional, reader.scalar(claims.lease, lease)}});
}

using Fields = Reader::Fields;

// An argument of a program: `NAME=COLUMN`.
bool is_column_name(std::string_view text) {
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) < ' '; };
  return !text.empty() && text.size() <= 256 && std::ranges::none_of(text, is_control);
}

// Keys of mappings: what is wrong with one; empty: nothing.
std::string wrong_column(std::string_view key) {
  const bool ours =
      key == "step" || key == "epoch" || key == "loss" || key == "accuracy" || is_metric_name(key);
  return ours ? "" : "is no name for a metric: letters, digits and _.-/";
}
std::string wrong_hyperparameter(std::string_view key) {
  const bool good = !key.empty() && key.find('=') == key.npos;
  return good ? "" : "a hyperparameter's name is not empty and has no '='";
}

Fields code_fields(Reader& reader, Code& code) {
  return {{"folder", optional, reader.expanded(code.folder, code_folder_path)},
          {"repository", optional, reader.expanded(code.repository, repository)},
          {"revision", optional, reader.scalar(code.revision, commit_id)},
          {"token", optional, reader.scalar(code.token, secret_reference)}};
}

Fields trainer_fields(Reader& reader, Trainer& trainer) {
  return {{"command", required, reader.scalar(trainer.command, command)},
          {"user", optional, reader.scalar(trainer.user, user_name)},
          {"environment", optional, reader.expanded(trainer.environment, python_environment)},
          {"env", optional,
           reader.table(trainer.env, environment_value, "a mapping of names to values",
                        wrong_variable_name)},
          {"secrets", optional,
           reader.table(trainer.secrets, secret_reference, "a mapping of names to references",
                        wrong_variable_name)},
          {"stop_signal", optional, reader.scalar(trainer.stop_signal, stop_signal)},
          {"stop_grace", optional, reader.scalar(trainer.stop_grace, duration)},
          {"reads", optional, reader.texts(trainer.reads, s3_prefix)},
          {"writes", optional, reader.texts(trainer.writes, s3_prefix)},
          {"role", optional, reader.scalar(trainer.role, role)},
          {"trust", optional, reader.scalar(trainer.trusted, trust)},
          {"imds", optional, reader.scalar(trainer.imds_allowed, imds_access)},
          {"gpus", optional, reader.scalar(trainer.gpus, gpu_count)},
          {"memory_max", optional, reader.scalar(trainer.memory_max, memory_amount)},
          {"cpu_quota", optional, reader.scalar(trainer.cpu_quota, cpu_quota)},
          {"cpu_weight", optional, reader.scalar(trainer.cpu_weight, cpu_weight)},
          {"result", optional, reader.scalar(trainer.result, path_below_mount)}};
}

Fields prometheus_fields(Reader& reader, Prometheus& prometheus) {
  return {{"port", optional, reader.scalar(prometheus.port, port)},
          {"textfile", optional, reader.scalar(prometheus.folder, folder_path)}};
}

Fields notify_fields(Reader& reader, Notify& notify) {
  notify.on.push_back("deadline");  // who says nothing gets all
  return {{"webhook", optional, reader.scalar(notify.webhook, secret_reference)},
          {"topic", optional, reader.expanded(notify.topic, topic)},
          {"on", optional, reader.texts(notify.on, notified_event)}};
}

const Scalar<std::string> column_name{
    .expected = "a column's name of up to 256 characters, none of them a control",
    .fits = is_column_name};

Fields checkpoints_fields(Reader& reader, Checkpoints& checkpoints) {
  return {{"directory", optional, reader.scalar(checkpoints.directory, path_below_mount)},
          {"files", optional, reader.scalar(checkpoints.files, file_patterns)},
          {"folders", optional, reader.scalar(checkpoints.folders, folder_patterns)},
          {"set", optional, reader.scalar(checkpoints.set, set_patterns)},
          {"s3", optional, reader.expanded(checkpoints.s3, s3_prefix)},
          {"keep_best", optional, objective(reader, checkpoints.keep_best, column_name)}};
}

Fields metrics_fields(Reader& reader, MetricsLog& log) {
  return {{"csv", optional, reader.scalar(log.csv, path_below_mount)},
          {"json_lines", optional, reader.scalar(log.json_lines, path_below_mount)},
          {"columns", optional,
           reader.table(log.columns, column_name,
                        "our names and the log's, such as {val_accuracy: top1}", wrong_column)}};
}

Fields sagemaker_fields(Reader& reader, SageMaker& sagemaker) {
  return {{"link", optional, reader.expanded(sagemaker.link, mount_point)},
          {"hyperparameters", optional,
           reader.table(sagemaker.hyperparameters, environment_value,
                        "hyperparameters, such as {epochs: 3}", wrong_hyperparameter)}};
}

Fields on_failure_fields(Reader& reader, OnFailure& on_failure) {
  return {{"attempts_without_progress", optional,
           reader.scalar(on_failure.attempts_without_progress, attempts)},
          {"starts_per_attempt", optional, reader.scalar(on_failure.starts_per_attempt, attempts)},
          {"blocked", optional, reader.scalar(on_failure.blocked, duration)},
          {"stall", optional, reader.scalar(on_failure.stall, stall_duration)},
          {"then", optional, reader.scalar(on_failure.then, give_up)},
          {"hold", optional, reader.scalar(on_failure.hold, duration)}};
}

// RFC 3339, of which the seconds may be left out.
Result<wire::WallTime> parse_moment(std::string_view text) {
  constexpr std::size_t minutes_end = std::string_view("2026-12-04T18:00").size();
  std::string whole(text);
  if (text.size() > minutes_end && text[minutes_end] != ':') whole.insert(minutes_end, ":00");
  if (const auto time = wire::parse_rfc3339(whole)) return *time;
  return failure(in_quotes(text) +
                 " is no time with its zone, such as 2026-12-04T18:00Z or 2026-12-04T18:00+01:00");
}
const Scalar<wire::WallTime> moment{"a time such as 2026-12-04T18:00Z", parse_moment};

const Scalar<Deadline::GivesWay> gives_way{.expected = "deadline or dollars",
                                           .choices = {{"deadline", Deadline::GivesWay::Deadline},
                                                       {"dollars", Deadline::GivesWay::Dollars}}};

Fields limits_fields(Reader& reader, Job& job) {
  return {{"hours", optional, reader.scalar(job.limits.hours, positive_number)},
          {"dollars", optional, reader.scalar(job.limits.dollars, positive_number)},
          {"gives_way", optional, reader.scalar(job.deadline.gives_way, gives_way)}};
}

Fields fleet_fields(Reader& reader, Fleet& fleet) {
  return {{"kind", required, reader.scalar(fleet.kind, fleet_kind)},
          {"id", required, reader.scalar(fleet.id, fleet_id)}};
}

}  // namespace

Reader::Fields job_fields(Reader& reader, Job& job) {
  return {{"job", required, reader.scalar(job.name, job_name)},
          {"storage", required, reader.by(read_storage, job.storage)},
          {"code", optional, reader.object(job.code, code_fields)},
          {"setup", optional, reader.texts(job.setup, setup_command)},
          {"trainer", required, reader.object(job.trainer, trainer_fields)},
          {"checkpoints", optional, reader.object(job.checkpoints, checkpoints_fields)},
          {"metrics", optional, reader.object(job.metrics, metrics_fields)},
          {"channels", optional, channels(reader, job.channels)},
          {"prepare", optional, reader.by(read_prepare, job.prepare)},
          {"cache", optional, reader.scalar(job.cache_on_instance_store, cache_place)},
          {"sagemaker", optional, reader.object(job.sagemaker, sagemaker_fields)},
          {"sweep", optional, reader.by(read_sweep, job.sweep)},
          {"claims", optional, reader.by(read_claims, job.claims)},
          {"gang", optional, reader.by(read_gang, job.gang)},
          {"on_failure", optional, reader.object(job.on_failure, on_failure_fields)},
          {"limits", optional, reader.object(job, limits_fields)},
          {"finish_by", optional, reader.scalar(job.deadline.finish_by, moment)},
          {"within", optional, reader.scalar(job.deadline.within, duration)},
          {"prometheus", optional, reader.object(job.prometheus, prometheus_fields)},
          {"publish", optional, reader.expanded(job.publish, s3_prefix)},
          {"fence", optional, reader.expanded(job.fence, s3_prefix)},
          {"notify", optional, reader.object(job.notify, notify_fields)},
          {"launch", optional, reader.by(read_launch, job)},
          {"fleet", optional, reader.object(job.fleet, fleet_fields)}};
}

}  // namespace spotter::config

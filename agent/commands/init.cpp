#include "agent/commands/commands.hpp"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <iostream>
#include <set>

#include "agent/aws/aws_calls.hpp"
#include "agent/aws/formats/ec2_places.hpp"
#include "agent/aws/settings/settings.hpp"
#include "agent/base/text.hpp"
#include "agent/commands/doctor.hpp"
#include "agent/commands/job_text.hpp"
#include "agent/config/job.hpp"
#include "agent/config/secrets.hpp"
#include "agent/host/verb.hpp"
#include "agent/io/files.hpp"
#include "agent/io/log.hpp"

namespace spotter::command {
namespace {

using Names = std::set<std::string>;

// Keeps those that are in both, unless that would leave none.
void narrow(Names& zones, const Names& to) {
  Names both;
  std::ranges::set_intersection(zones, to, std::inserter(both, both.end()));
  if (!both.empty()) zones = std::move(both);
}

// The account's zones and types for a new job, by Describe calls alone.
class AccountView {
 public:
  // Asks who calls. Without an answer all below answers from what is known without AWS.
  explicit AccountView(const Region& region) : calls_(AwsCalls::open(region)) {
    const auto who = calls_->ask(wire::GetCallerIdentity{});
    if (who)
      number_ = who->account;
    else
      trouble_ = who.error().message;
  }

  const std::string& number() const { return number_; }    // empty: unknown
  const std::string& trouble() const { return trouble_; }  // why it is unknown

  // Those of the types that a zone of the region offers; all where that is unknown.
  std::vector<std::string> offered(const std::vector<std::string>& types) {
    if (number_.empty()) return types;
    const auto there = calls_->ask_all(wire::DescribeInstanceTypeOfferings{types, {}});
    if (!there) return types;
    std::vector<std::string> found = types;
    std::erase_if(found, [&](const std::string& type) {
      return std::ranges::none_of(*there, [&](const auto& it) { return it.type.str() == type; });
    });
    return found.empty() ? types : found;
  }

  // The zones that are available, have a default subnet and one of the types. A condition that
  // no zone meets, or that cannot be read, does not count: remarks() says so. Empty: unknown.
  std::vector<std::string> zones(const std::vector<std::string>& types) {
    if (number_.empty()) return {};
    const auto places = calls_->ask(wire::DescribeAvailabilityZones{});
    if (!places) return {};
    Names zones;
    for (const auto& it : places->items)
      if (it.state == "available") zones.insert(it.zone.str());
    wire::DescribeSubnets defaults;
    defaults.filters = {{"default-for-az", {"true"}}};
    Names with_subnet, with_type;
    if (const auto subnets = calls_->ask_all(defaults))
      for (const auto& it : *subnets) with_subnet.insert(it.zone.str());
    if (const auto there = calls_->ask_all(wire::DescribeInstanceTypeOfferings{types, {}}))
      for (const auto& it : *there) with_type.insert(it.zone.str());
    narrow(zones, with_subnet);
    narrow(zones, with_type);
    return {zones.begin(), zones.end()};
  }

  // Problems of zones, subnets, types and quotas, a line each, as `spotter doctor` reports them.
  std::string remarks(const config::Job& job) {
    if (number_.empty() || !job.launch) return {};
    Findings all = examine_places(*calls_, job, scope_of(job));
    std::ranges::move(examine_quotas(*calls_, *job.launch), std::back_inserter(all));
    return describe(without_ok(std::move(all)));
  }

 private:
  std::unique_ptr<AwsCalls> calls_;
  std::string number_;
  std::string trouble_;
};

// The git checkout that a person stands in.
struct GitCheckout {
  std::string address;   // of the remote `origin`, as web_address() makes it; empty: none
  std::string revision;  // HEAD's full commit id; empty: none
  bool pushed = false;   // a branch of a remote that was seen here has HEAD
  bool changed = false;  // files that git knows differ from HEAD
};

// Its output without the last newline; none: it failed.
std::optional<std::string> ask_git(std::vector<std::string> words) {
  words.insert(words.begin(), "git");
  auto variables = config::variables_of_process();
  variables["GIT_OPTIONAL_LOCKS"] = "0";
  const auto done = act::host::run_tool({words, variables}, "git");
  if (!done || done->status != 0) return std::nullopt;
  std::string text = done->output;
  while (text.ends_with('\n')) text.pop_back();
  return text;
}

// All empty: the current folder is in no checkout, or there is no git.
GitCheckout current_checkout() {
  GitCheckout found;
  const auto head = ask_git({"rev-parse", "--verify", "HEAD^{commit}"});
  if (!head) return found;
  found.revision = *head;
  found.address = web_address(ask_git({"remote", "get-url", "origin"}).value_or(""));
  found.pushed = !ask_git({"branch", "--remotes", "--contains", *head}).value_or("").empty();
  found.changed = !ask_git({"status", "--porcelain", "--untracked-files=no"}).value_or("").empty();
  return found;
}

using Given = std::optional<std::string>;

struct InitOptions {
  std::string file = "job.yaml";
  Given name, repository, revision, command, user, result, region, zones, types, image, bucket,
      volume_size;
  bool all_defaults = false;
};

// Separated by commas or blanks.
std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> words;
  for (std::size_t begin = 0; (begin = text.find_first_not_of(", ", begin)) != text.npos;) {
    const auto end = std::min(text.find_first_of(", ", begin), text.size());
    words.push_back(text.substr(begin, end - begin));
    begin = end;
  }
  return words;
}

std::string unless_none(const std::string& text) { return text == "none" ? "" : text; }

std::string bucket_of(std::string text) {
  if (text.starts_with("s3://")) text.erase(0, 5);
  while (text.ends_with('/')) text.pop_back();
  return unless_none(text);
}

// The job as an instance reads it, where root runs the agent.
Result<config::Job, std::vector<config::Problem>> job_of(const std::string& text) {
  return config::parse_job(text, config::Environment::of_root());
}

// Problems of the answers; empty: none.
std::string problems_of(const JobAnswers& answers) {
  const auto job = job_of(job_text(answers));
  std::string text;
  if (!job)
    for (const config::Problem& it : job.error()) text += (text.empty() ? "" : "; ") + it.message;
  return text;
}

// One question: what a flag gave, else what a person types, else the default.
struct Question {
  std::string prompt;
  std::string usual;  // the default
  const Given& given;
};

class Interview {
 public:
  explicit Interview(bool person) : person_(person) {}

  // `take` keeps an answer, and says what is wrong with it, or nothing. A person is asked again.
  // The default is taken as it is. Fails where a flag is wrong, or the input ended.
  template <class Take>
  Result<void> ask(const Question& question, Take take) {
    if (question.given || !person_) {
      const std::string problem = take(question.given.value_or(question.usual));
      if (!problem.empty()) return failure(question.prompt + ": " + problem);
      return {};
    }
    for (;;) {
      std::printf("%s [%s]: ", question.prompt.c_str(),
                  question.usual.empty() ? "none" : question.usual.c_str());
      std::fflush(stdout);
      std::string line;
      if (!std::getline(std::cin, line)) return failure("the input ended; nothing was written");
      const std::string problem = take(line.empty() ? question.usual : line);
      if (problem.empty()) return {};
      std::printf("  %s\n", problem.c_str());
    }
  }
  // Asks, and lets the file's own checks say whether a text will do.
  template <class Set>
  Result<void> fill(JobAnswers& answers, const Question& question, Set set) {
    return ask(question, [&](const std::string& text) {
      set(text);
      return problems_of(answers);
    });
  }

  bool has_person() const { return person_; }

 private:
  bool person_;
};

// Why it may not be written there; empty: it may.
std::string in_the_way(const std::string& file) {
  std::error_code error;
  const auto there = fs::symlink_status(file, error).type();
  if (there == fs::file_type::not_found) return {};
  if (there == fs::file_type::none) return file + ": " + error.message();
  return file + " is there already: remove it, or name another file";
}

// The first of these that the current folder has; none: what most trainings begin with.
std::string command_here() {
  for (const char* name : {"train.py", "main.py"})
    if (std::error_code error; fs::is_regular_file(name, error))
      return std::string("python3 ") + name;
  return JobAnswers().command;
}

Result<void> ask_for_code(Interview& interview, const InitOptions& options, const GitCheckout& here,
                          JobAnswers& to) {
  if (!here.address.empty()) to.repository = here.address;
  const std::string likely = options.repository.value_or(to.repository);
  std::error_code error;
  const std::string folder = fs::current_path(error).filename().string();
  to.name = job_name_for(likely == nobodys_repository || likely == "." ? folder : likely);
  to.command = command_here();
  TRY(interview.fill(to, {"Name of the job", to.name, options.name},
                     [&](const auto& text) { to.name = text; }));
  // The files here need a bucket, which only a person can be asked for.
  const bool has_bucket = !bucket_of(options.bucket.value_or(bucket_of_setup())).empty();
  if (has_bucket || (interview.has_person() && !options.bucket)) to.repository = ".";
  TRY(interview.fill(
      to, {"Code: . for the files here, or a git repository", to.repository, options.repository},
      [&](const auto& text) { to.repository = text; }));
  if (to.repository == here.address) to.revision = here.revision;
  if (to.sends_folder()) {
    if (options.revision) return failure("--revision is of a --repository: name it, too");
    to.revision.clear();
  } else
    TRY(interview.fill(to, {"Commit, its full id", to.revision, options.revision},
                       [&](const auto& text) { to.revision = text; }));
  TRY(interview.fill(to, {"Command that trains", to.command, options.command},
                     [&](const auto& text) { to.command = text; }));
  if (options.user) to.user = *options.user;
  return interview.fill(to, {"File that is there when it has finished", "", options.result},
                        [&](const auto& text) { to.result = unless_none(text); });
}

Result<Region> ask_for_region(Interview& interview, const Region& configured, const Given& given) {
  std::string region = configured.empty() ? "us-west-2" : configured.str();
  TRY(interview.ask({"Region", region, given}, [&](const std::string& text) {
    region = text;
    const bool fits = !text.empty() &&
                      text.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-") == text.npos;
    return std::string(fits ? "" : "a region's name is such as us-west-2");
  }));
  return Region(region);
}

Result<void> ask_for_machines(Interview& interview, const InitOptions& options,
                              const Region& region, AccountView& account, JobAnswers& to) {
  to.types = account.offered(to.types);
  TRY(interview.fill(to, {"Instance types", joined(to.types, ","), options.types},
                     [&](const auto& text) { to.types = words_of(text); }));
  to.zones = account.zones(to.types);
  if (to.zones.empty()) to.zones = {region.str() + "a", region.str() + "b"};
  TRY(interview.fill(to, {"Zones", joined(to.zones, ","), options.zones},
                     [&](const auto& text) { to.zones = words_of(text); }));
  const std::string image(image_for(to.types));
  const auto take = [&](const std::string& text) {
    to.image = text;
    if (text.empty())
      return "for " + joined(to.types, ",") + " no image is known here: name one, --image ami-...";
    return problems_of(to);
  };
  TRY(interview.ask({"Image", image, options.image}, take));
  TRY(interview.fill(
      to, {"Bucket in S3 for its progress and the package", bucket_of_setup(), options.bucket},
      [&](const auto& text) { to.bucket = bucket_of(text); }));
  const auto take_size = [&](const std::string& text) {
    to.volume_size = text;
    if (to.in_bucket() && to.bucket.empty())
      return std::string("without a volume it needs a bucket: --bucket NAME");
    return problems_of(to);
  };
  return interview.ask(
      {"Volume's size in GiB, or none: only the bucket", to.volume_size, options.volume_size},
      take_size);
}

void remark_checkout(const GitCheckout& here, const JobAnswers& answers) {
  if (answers.repository != here.address || answers.revision != here.revision) return;
  if (!here.pushed)
    io::complain("init", "HEAD is on no branch of a remote: push it before `spotter launch`");
  if (here.changed)
    io::complain("init", "the checkout has changes that are not committed: instances get HEAD");
}

void remark_what_to_change(const std::string& file, const InitOptions& options,
                           const JobAnswers& answers) {
  const std::string change = "change in " + file + ": ";
  if (answers.repository == nobodys_repository)
    io::complain("init", change + "code.repository, which is nobody's (--repository)");
  if (answers.revision == nobodys_revision)
    io::complain("init", change + "code.revision, which is no commit (--revision)");
  const std::string script = answers.command.substr(answers.command.rfind(' ') + 1);
  std::error_code error;
  if (!options.command && script.ends_with(".py") && !fs::exists(script, error))
    io::complain("init",
                 change + "trainer.command, unless the checkout has " + script + " (--command)");
  if (answers.bucket.empty() && answers.sends_folder())
    io::complain("init", change + "publish, where the files here are sent to (--bucket)");
  if (answers.bucket.empty())
    io::complain("init", change + "launch.package: the image has no Spotter (--bucket)");
}

std::string one_word(const std::string& text) {
  const bool plain = text.find_first_not_of(
                         "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                         "0123456789-_./") == text.npos;
  return plain ? text : wire::shell_quoted(text);
}

void print_next(const std::string& named, const std::string& account, const Region& region,
                bool configured, bool has_volume) {
  const std::string file = one_word(named);
  const std::string number =
      account.empty() ? "$(aws sts get-caller-identity --query Account --output text)" : account;
  std::printf("%s is written. Read it; then:\n\n", named.c_str());
  if (!configured) std::printf("  export AWS_REGION=%s\n", region.str().c_str());
  const std::pair<std::string, const char*> commands[] = {
      {"iam roles " + file + " --account " + number + " --region " + region.str(),
       "prints the commands of `aws` that make the roles"},
      {"doctor " + file, "says what is missing"},
      {"launch " + file,
       has_volume ? "makes the volume, requests an instance" : "requests an instance"},
      {"logs -f " + file, "shows what the command prints"},
      {"status --job " + file, "shows progress and cost"},
      {"stop " + file, has_volume ? "ends fleet and instances; the volume stays"
                                  : "ends fleet and instances; the bucket stays"}};
  for (const auto& [command, what] : commands)
    std::printf("  spotter %s   # %s\n", command.c_str(), what);
}

// Asks, looks, writes, and says how to go on.
Result<void> write_first_job(const InitOptions& options) {
  if (const auto problem = in_the_way(options.file); !problem.empty()) return failure(problem);
  Interview interview(!options.all_defaults && ::isatty(STDIN_FILENO) != 0);
  const GitCheckout here = current_checkout();
  JobAnswers answers;
  TRY(ask_for_code(interview, options, here, answers));
  const Region configured = act::configured_region(act::Environment::of_this_process());
  const auto region = TRY(ask_for_region(interview, configured, options.region));
  AccountView account(region);
  TRY(ask_for_machines(interview, options, region, account, answers));
  const std::string text = job_text(answers);
  if (const auto problem = in_the_way(options.file); !problem.empty()) return failure(problem);
  TRY(behind(options.file, io::atomic_write(options.file, text, 0644)));
  if (configured.empty() && !options.region)
    io::complain("init", "no region is configured: " + region.str() + " is taken (--region)");
  if (!account.trouble().empty())
    io::complain("init", "zones, default subnets, instance types and quotas were not looked up: " +
                             account.trouble());
  if (const auto job = job_of(text)) std::fputs(account.remarks(*job).c_str(), stderr);
  remark_checkout(here, answers);
  remark_what_to_change(options.file, options, answers);
  print_next(options.file, account.number(), region, configured == region, !answers.in_bucket());
  return {};
}

}  // namespace

void add_init(CLI::App& app, int& status) {
  auto* command = app.add_subcommand(
      "init",
      "Writes a first job.yaml, each line explained: asks at a terminal, else takes the defaults, "
      "from the git checkout here and from the account, where there are credentials");
  auto options = std::make_shared<InitOptions>();
  command->add_option("file", options->file, "What is written")->capture_default_str();
  command->add_option("--name", options->name, "The job's name; default: the repository's");
  command->add_option("--repository", options->repository,
                      "Of git, or . for the files here; default: with a bucket ., else the remote "
                      "`origin`");
  command->add_option("--revision", options->revision,
                      "Of a repository: a full commit id; default: HEAD");
  command->add_option("--command", options->command, "What trains, such as 'python3 train.py'");
  command->add_option("--user", options->user, "Who runs it; default: spotter, a user of its own");
  command->add_option("--result", options->result,
                      "The file without which it has not finished; default: none");
  command->add_option("--region", options->region, "Default: the configured one");
  command->add_option("--types", options->types,
                      "Instance types; default: g5.xlarge,g6.xlarge,g4dn.xlarge");
  command->add_option("--zones", options->zones,
                      "Default: those with a default subnet and one of the types");
  command->add_option("--image", options->image,
                      "ami-... or resolve:ssm:/PARAMETER; default: AWS's Deep Learning AMI with "
                      "PyTorch, for types without a GPU Ubuntu 24.04");
  command->add_option("--bucket", options->bucket,
                      "To which the job's progress is published; default: that of `spotter setup`");
  command->add_option("--volume-size", options->volume_size,
                      "GiB, or none: checkpoints are kept in the bucket alone; default: 100");
  command->add_flag("--yes", options->all_defaults, "Asks nothing: takes the defaults");
  command->callback([options, &status] {
    const auto done = write_first_job(*options);
    status = done ? 0 : io::complain("init", done.error().message, wrong_input);
  });
}

}  // namespace spotter::command

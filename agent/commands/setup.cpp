// `spotter setup`: once an account, a bucket and the roles of all jobs.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "agent/aws/aws_calls.hpp"
#include "agent/aws/formats/ec2_places.hpp"
#include "agent/aws/formats/partition.hpp"
#include "agent/aws/formats/s3.hpp"
#include "agent/aws/s3/client.hpp"
#include "agent/base/result.hpp"
#include "agent/commands/commands.hpp"
#include "agent/commands/iam.hpp"
#include "agent/commands/launched_job.hpp"
#include "agent/io/files.hpp"
#include "agent/io/log.hpp"

namespace spotter::command {
namespace {

struct SetupOptions {
  std::string bucket;
  std::string region;
  std::vector<std::string> read;
  bool shell = false;
  bool print = false;
  bool yes = false;
};

fs::path remembered() {
  const char* config = std::getenv("XDG_CONFIG_HOME");
  const char* home = std::getenv("HOME");
  if (config != nullptr && *config == '/') return fs::path(config) / "spotter/bucket";
  return home != nullptr && *home == '/' ? fs::path(home) / ".config/spotter/bucket" : fs::path();
}

// Only a convenience: `spotter init` takes it for its default.
void remember(const std::string& bucket) {
  const fs::path file = remembered();
  std::error_code error;
  if (file.empty()) return;
  fs::create_directories(file.parent_path(), error);
  (void)io::atomic_write(file, bucket + "\n", 0644);
}

std::string location_of(const std::string& region) {
  if (region == "us-east-1") return {};  // S3 refuses its name here
  return "<CreateBucketConfiguration xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">"
         "<LocationConstraint>" +
         region + "</LocationConstraint></CreateBucketConfiguration>";
}

Result<void> make_bucket(const std::string& bucket, const std::string& region) {
  s3::Client client({.environment = act::Environment::of_this_process()});
  const std::string body = location_of(region);
  s3::Request request{.method = "PUT", .bucket = bucket};
  request.body = body;
  const auto made = client.perform(std::move(request));
  if (made) {
    std::printf("  bucket %s: made\n", bucket.c_str());
    return {};
  }
  const std::string& code = made.error().code;
  if (code == "BucketAlreadyOwnedByYou") {
    std::printf("  bucket %s: is there\n", bucket.c_str());
    return {};
  }
  if (code == "BucketAlreadyExists")
    return failure("the bucket " + bucket +
                   " is somebody else's: all of AWS has each name once; choose another");
  return failure(made.error().text());
}

// An answer that says: it is there already.
bool is_there(const std::string& action, const std::string& code) {
  if (code == "EntityAlreadyExists") return true;
  if (action == "AddRoleToInstanceProfile") return code == "LimitExceeded";  // a profile has one
  return action == "CreateServiceLinkedRole" && code == "InvalidInput";
}

std::string subject_of(const IamCall& call) {
  for (const char* name : {"PolicyName", "AWSServiceName", "InstanceProfileName", "RoleName"})
    if (const auto it = call.parameters.find(name); it != call.parameters.end()) return it->second;
  return {};
}

Result<void> make_roles(AwsCalls& calls, const RoleCommands& commands) {
  for (const IamCall& call : commands.calls) {
    const auto done = calls.perform(
        wire::Query{.service = "iam",
                    .action = call.action,
                    .repeatable = wire::Repeatable::Read,  // what it makes twice is there already
                    .parameters = call.parameters,
                    .region = Region(wire::partition_of(calls.region().view()).iam_region)});
    if (!done && !is_there(call.action, done.error().code)) {
      const auto role = call.parameters.find("RoleName");
      const bool full = done.error().code == "LimitExceeded" && role != call.parameters.end();
      return failure(done.error().message +
                     (full
                          ? ": its other policies leave no room; delete what nobody needs (aws iam "
                            "list-role-policies --role-name " +
                                role->second + "), then run this again"
                          : ""));
    }
    std::printf("  %s %s: %s\n", call.action.c_str(), subject_of(call).c_str(),
                done ? "done" : "is there");
  }
  return {};
}

Result<std::vector<wire::S3Location>> places(const std::vector<std::string>& urls) {
  std::vector<wire::S3Location> all;
  for (const std::string& url : urls) {
    auto where = TRY(behind("--read", wire::parse_s3_url(url)));
    all.push_back(std::move(where));
  }
  return all;
}

Result<int> run(const SetupOptions& options) {
  if (!wire::fits_into_host(options.bucket, false))
    return mistake("--bucket: '" + options.bucket +
                   "' is no name that S3 takes: 3 to 63 of a-z, 0-9, '.' and '-'");
  const auto read = TRY(of_input(places(options.read)));
  const auto calls = TRY(of_input(calls_in(options.region)));
  const auto who = TRY(calls->ask(wire::GetCallerIdentity{}));
  const IamScope scope{.account = who.account, .region = calls->region()};
  const RoleCommands commands = account_commands(options.bucket, read, scope, options.shell);
  if (!commands.problems.empty()) return failure(commands.problems);
  if (options.print) {
    std::printf("aws s3 mb s3://%s --region %s\n%s", options.bucket.c_str(),
                scope.region.str().c_str(), commands.text.c_str());
    return 0;
  }
  std::printf(
      "In the account %s, as %s, region %s, once for all jobs:\n"
      "  the bucket %s: packages, code, progress, results, homes\n"
      "  the role and instance profile %s, of machines: volumes, snapshots and fleets that have "
      "the tag spotter:job, and that bucket%s\n"
      "  the role %s-trainer: that bucket%s; each job's session has its own part of it\n"
      "  the service-linked roles of EC2's fleets and spot instances\n"
      "(--print: the commands of `aws`, and nothing is done)\n",
      scope.account.c_str(), who.arn.c_str(), scope.region.str().c_str(), options.bucket.c_str(),
      scope.role.c_str(), options.shell ? ", and a terminal there by `spotter shell`" : "",
      scope.role.c_str(), read.empty() ? "" : ", and to read what is named");
  if (!options.yes && !agrees("Go on?")) return mistake("nothing was done; --yes asks nothing");
  TRY(make_bucket(options.bucket, scope.region.str()));
  TRY(make_roles(*calls, commands));
  remember(options.bucket);
  std::printf("Next, where your code is: spotter init && spotter launch --logs\n");
  return 0;
}

}  // namespace

std::string bucket_of_setup() {
  auto text = remembered().empty() ? std::string() : io::read_file(remembered(), 256).value_or("");
  while (text.ends_with('\n')) text.pop_back();
  return wire::fits_into_host(text, false) ? text : std::string();
}

void add_setup(CLI::App& app, int& status) {
  auto* command = app.add_subcommand(
      "setup", "Once an account: a bucket, and the roles with which machines run every job");
  auto options = std::make_shared<SetupOptions>();
  command->add_option("--bucket", options->bucket, "Its name; made, unless it is yours already")
      ->required();
  command->add_option("--region", options->region, "Default: the configured one");
  command->add_option("--read", options->read,
                      "s3://bucket/prefix with data that trainers may read, too; repeatable");
  command->add_flag("--shell", options->shell,
                    "Lets `spotter shell` open a terminal on machines, by AWS's Session Manager");
  command->add_flag("--print", options->print, "Prints the commands of `aws`, and does nothing");
  command->add_flag("--yes", options->yes, "Asks nothing");
  command->callback([options, &status] { status = io::ended("setup", run(*options)); });
}

}  // namespace spotter::command

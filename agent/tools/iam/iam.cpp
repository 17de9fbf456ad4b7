#include "agent/tools/iam/iam.hpp"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <set>

#include "agent/aws/settings/endpoints.hpp"
#include "agent/aws/settings/environment.hpp"
#include "agent/base/exit_status.hpp"
#include "agent/io/complain.hpp"
#include "agent/job/trainer_role.hpp"
#include "agent/launch/requests.hpp"

namespace spotter::command {
namespace {

constexpr const char* all_roles = "roles";  // not one document, but the commands that make all

std::string partition_of(std::string_view region) {
  if (region.starts_with("cn-")) return "aws-cn";
  return region.starts_with("us-gov-") ? "aws-us-gov" : "aws";
}

// Objects, buckets and prefixes of some places in S3, as `<name>-objects` and so on.
struct Places {
  std::set<std::string> objects, buckets, prefixes;

  void add(const std::string& arn, const wire::S3Location& where) {
    objects.insert(arn + where.bucket + "/" + wire::literally(where.key) + "*");
    buckets.insert(arn + where.bucket);
    prefixes.insert(wire::literally(where.key) + "*");
  }
  void give(const std::string& name, wire::IamValues& to) const {
    to.many[name + "-objects"] = {objects.begin(), objects.end()};
    to.many[name + "-buckets"] = {buckets.begin(), buckets.end()};
    to.many[name + "-prefixes"] = {prefixes.begin(), prefixes.end()};
  }
};

void add_places(const config::Job& job, const IamScope& scope, wire::IamValues& values) {
  const std::string s3 = "arn:" + values.one["partition"] + ":s3:::";
  Places channels;
  for (const wire::Channel& channel : job.channels.all)
    if (!channel.anonymous) channels.add(s3, channel.source);
  channels.give("channel", values);
  Places prepared;
  Places sent;
  for (const config::Source& source : job.prepare) {
    if (const auto where = wire::parse_s3_url(source.from)) prepared.add(s3, *where);
    if (source.via) prepared.add(s3, *source.via);
    if (source.via) sent.add(s3, *source.via);
  }
  prepared.give("prepared", values);
  sent.give("sent", values);
  Places checkpoints;
  for (const wire::S3Location& where : scope.checkpoints) checkpoints.add(s3, where);
  checkpoints.give("checkpoint", values);
  Places claims;
  if (job.claims) claims.add(s3, job.claims->at);
  claims.give("claim", values);
  Places published;
  if (const auto where = job.published_at()) published.add(s3, *where);
  published.give("published", values);
  auto& package = values.many["package-objects"];
  if (job.launch)
    if (const auto where = wire::parse_s3_url(job.launch->package.source))
      package = {s3 + where->bucket + "/" + wire::literally(where->key)};
  auto& list = values.many["list-objects"];
  if (job.sweep && !job.sweep->source.empty())
    if (const auto where = wire::parse_s3_url(job.sweep->source))
      list = {s3 + where->bucket + "/" + wire::literally(where->key)};
}

// With a sweep each experiment has a volume of its own, with its index behind the name.
std::vector<std::string> names_of(const config::Job& job, const std::string& name) {
  std::vector<std::string> names{wire::literally(name)};
  if (job.sweep) names.push_back(wire::literally(name) + "-*");
  return names;
}

void add_volumes(const config::Job& job, const std::string& ec2, wire::IamValues& values) {
  for (const char* name : {"volumes", "snapshots", "holders", "tag-values", "data-snapshots"})
    values.many[name] = {};
  if (job.storage.share) return;
  const std::string account = ":" + values.one["account"] + ":";
  values.one["tag-key"] = job.storage.ebs.tag.key;
  values.many["tag-values"] = names_of(job, job.storage.ebs.tag.value);
  values.many["volumes"] = {ec2 + account + "volume/*"};
  values.many["snapshots"] = {ec2 + "::snapshot/*"};
  values.many["holders"] = {ec2 + account + "instance/*"};
  for (const config::DataVolume& data : job.storage.data)
    values.many["data-snapshots"].push_back(ec2 + "::snapshot/" + data.snapshot);
}

void add_secrets(const config::Job& job, const std::string& ssm, wire::IamValues& values) {
  std::set<std::string> secrets;
  const auto add = [&](const config::SecretReference& reference) {
    if (reference.kind != config::SecretReference::Kind::Parameter) return;
    const std::string slash = reference.target.starts_with('/') ? "" : "/";
    secrets.insert(ssm + "parameter" + slash + reference.target);
  };
  if (job.code && job.code->token) add(*job.code->token);
  if (job.notify.webhook) add(*job.notify.webhook);
  for (const auto& [name, reference] : job.trainer.secrets) add(reference);
  values.many["secrets"] = {secrets.begin(), secrets.end()};
}

void add_trainer_role(const config::Job& job, wire::IamValues& values) {
  auto& roles = values.many["trainer-roles"];
  roles = {};
  if (config::has_instances_role(job.trainer)) return;
  const std::string role = config::trainers_role(job.trainer, values.one["role"]);
  const std::string iam =
      "arn:" + values.one["partition"] + ":iam::" + values.one["account"] + ":role/";
  roles = {role.starts_with("arn:") ? role : iam + role};
}

void add_batch(const config::Job& job, const std::string& batch, wire::IamValues& values) {
  for (const char* name : {"batch-all", "batch-resources", "batch-jobs", "batch-roles"})
    values.many[name] = {};
  if (!job.sweep || !job.sweep->batch) return;
  const auto& [environment, queue, definition] = *job.sweep->batch;
  values.many["batch-all"] = {"*"};
  values.many["batch-resources"] = {batch + "compute-environment/" + environment.name,
                                    batch + "job-definition/" + definition.name + "*",
                                    batch + "job-queue/" + queue.name};
  values.many["batch-jobs"] = {batch + "job/*"};
  const std::string iam =
      "arn:" + values.one["partition"] + ":iam::" + values.one["account"] + ":role/";
  for (const std::string& role :
       {environment.instance_role, environment.service_role, definition.job_role})
    if (!role.empty())
      values.many["batch-roles"].push_back(role.starts_with("arn:") ? role : iam + role);
}

void add_launch(const config::Job& job, const std::string& here, wire::IamValues& values) {
  for (const char* name :
       {"launched-things", "launch-templates", "launched-fleets", "launched-groups",
        "image-parameters", "launch-roles", "launch-all", "spot-quotas"})
    values.many[name] = {};
  if (!job.launch) return;
  const std::string arn = "arn:" + values.one["partition"] + ":";
  const auto ec2 = [&](const char* what) { return arn + "ec2:" + here + what + "/*"; };
  values.many["launch-all"] = {"*"};
  values.many["spot-quotas"] = {arn + "servicequotas:" + here + "ec2/*"};
  values.many["launched-things"] = {ec2("fleet"), ec2("instance"), ec2("launch-template"),
                                    ec2("spot-fleet-request"), ec2("volume")};
  values.many["launch-templates"] = {ec2("launch-template")};
  values.many["launched-fleets"] = {ec2("fleet"), ec2("instance"), ec2("spot-fleet-request")};
  values.many["launched-groups"] = {arn + "autoscaling:" + here +
                                    "autoScalingGroup:*:autoScalingGroupName/" +
                                    launch::resource_name(job)};
  constexpr std::string_view parameter = "resolve:ssm:";
  if (const std::string& image = job.launch->image; image.starts_with(parameter)) {
    const std::string name = image.substr(parameter.size());
    // AWS's own are nobody's.
    const std::string whose = name.starts_with("/aws/") ? values.one["region"] + "::" : here;
    values.many["image-parameters"] = {arn + "ssm:" + whose + "parameter" +
                                       (name.starts_with('/') ? "" : "/") + name};
  }
  values.many["launch-roles"] = {arn + "iam::" + values.one["account"] + ":role/" +
                                 values.one["role"]};
  if (!job.launch->fleet_role.empty())
    values.many["launch-roles"].push_back(job.launch->fleet_role);
}

struct IamOptions {
  std::string document;
  std::string job = "job.yaml";
  IamScope scope;
  std::string region;
  std::vector<std::string> checkpoints;
};

int print(IamOptions options) {
  const auto job = config::load_job(options.job, config::Environment::of_process());
  if (!job) {
    std::fputs(config::describe(job.error(), options.job).c_str(), stderr);
    return wrong_input;
  }
  if (options.region.empty())
    options.region = act::configured_region(act::Environment::of_this_process()).str();
  if (options.region.empty())
    return io::complain("iam", "no region is known: --region, or set AWS_REGION", wrong_input);
  options.scope.region = Region(options.region);
  for (const std::string& url : options.checkpoints) {
    const auto where = wire::parse_s3_url(url);
    if (!where) return io::complain("iam", "--checkpoints: " + where.error().message, wrong_input);
    options.scope.checkpoints.push_back(*where);
  }
  if (options.document == all_roles) {
    std::fputs(role_commands(*job, options.scope).c_str(), stdout);
    return 0;
  }
  const wire::IamValues values = iam_values(*job, options.scope);
  for (const wire::IamDocument& document : wire::iam_documents()) {
    if (document.name != options.document) continue;
    const auto filled = wire::fill_in(document, values);
    if (!filled) return io::complain("iam", filled.error().message, wrong_input);
    if (filled->find("\"Effect\"") == filled->npos)
      return io::complain("iam", "the job needs no such policy: nothing is left of it");
    std::printf("%s\n", filled->c_str());
    return 0;
  }
  return io::complain("iam", "there is no document " + options.document, wrong_input);
}

}  // namespace

wire::IamValues iam_values(const config::Job& job, const IamScope& scope) {
  wire::IamValues values;
  const std::string region = scope.region.str();
  const std::string partition = partition_of(region);
  values.one = {{"partition", partition},
                {"region", region},
                {"account", scope.account},
                {"role", scope.role},
                {"job", job.name.str()}};
  const auto service = [&](const char* name) { return "arn:" + partition + ":" + name + ":"; };
  const std::string here = region + ":" + scope.account + ":";
  values.many["owners"] = names_of(job, job.name.str());
  values.many["volume-keys"] = scope.volume_keys;
  values.many["claimants"] = {};
  values.many["topics"] = {};
  if (!job.notify.topic.empty()) values.many["topics"] = {job.notify.topic};
  const bool may_leave = job.claims || job.trainer.gpus != 0;  // a machine that lacks some goes
  if (may_leave) values.many["claimants"] = {service("ec2") + here + "instance/*"};
  add_volumes(job, service("ec2") + region, values);
  add_secrets(job, service("ssm") + here, values);
  add_trainer_role(job, values);
  add_batch(job, service("batch") + here, values);
  add_launch(job, here, values);
  add_places(job, scope, values);
  return values;
}

void add_iam(CLI::App& app, int& status) {
  auto* command = app.add_subcommand(
      "iam",
      "Prints a role's or user's policy, or whom a role trusts, for the job of job.yaml; "
      "`roles`: the commands of `aws` that make them all");
  auto options = std::make_shared<IamOptions>();
  std::set<std::string> names{all_roles};
  for (const auto& document : wire::iam_documents()) names.emplace(document.name);
  command->add_option("document", options->document, "Which of scripts/iam, or roles")
      ->required()
      ->check(CLI::IsMember(names));
  command->add_option("job", options->job, "The job's description")->capture_default_str();
  command->add_option("--account", options->scope.account, "Its number: 12 digits")
      ->required()
      ->check(CLI::Validator(
          [](const std::string& text) {
            const bool fits =
                text.size() == 12 && text.find_first_not_of("0123456789") == text.npos;
            return fits ? "" : "an account's number has 12 digits";
          },
          "NUMBER"));
  command->add_option("--region", options->region, "Default: AWS_REGION");
  command->add_option("--role", options->scope.role, "Of the instances, as their profile is named")
      ->capture_default_str();
  command->add_option("--volume-key", options->scope.volume_keys,
                      "ARN of a KMS key with which the volume is encrypted; repeatable");
  command->add_option("--checkpoints", options->checkpoints,
                      "s3://bucket/prefix to which the trainer copies its checkpoints");
  command->callback([options, &status] { status = print(*options); });
}

}  // namespace spotter::command

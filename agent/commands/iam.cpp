#include "agent/commands/iam.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "agent/aws/formats/aws_command.hpp"
#include "agent/aws/formats/partition.hpp"
#include "agent/aws/settings/settings.hpp"
#include "agent/commands/commands.hpp"
#include "agent/commands/prepare_here.hpp"
#include "agent/config/git_server.hpp"
#include "agent/config/trainer_role.hpp"
#include "agent/io/log.hpp"
#include "agent/launch/requests.hpp"

namespace spotter::command {
namespace {

using OrderedJson = nlohmann::ordered_json;
using Places = std::vector<wire::S3Location>;

// The beginning of an ARN in the account for which policies are printed.
std::string arn(const std::string& service, const std::string& region,
                const wire::IamValues& values) {
  return "arn:" + values.one.at("partition") + ":" + service + ":" + region + ":" +
         values.one.at("account") + ":";
}

// Gives `<name>-objects`, `<name>-buckets` and `<name>-prefixes` of all that lies in these places
// in S3; one below another is not named again. `single`: objects, by their whole keys.
void give(const std::string& arn, const std::string& name, const Places& places,
          const Places& single, wire::IamValues& to) {
  std::map<std::string, std::set<std::string>> all;  // bucket -> keys' prefixes
  for (const wire::S3Location& it : places) all[it.bucket].insert(it.key);
  auto& objects = to.many[name + "-objects"] = {};
  auto& buckets = to.many[name + "-buckets"] = {};
  std::set<std::string> prefixes;
  for (const auto& [bucket, keys] : all) {
    const std::string* above = nullptr;
    buckets.push_back(arn + bucket);
    for (const std::string& key : keys) {  // a prefix comes before what it begins
      if (above != nullptr && key.starts_with(*above)) continue;
      above = &key;
      objects.push_back(arn + bucket + "/" + wire::literally(key) + "*");
      prefixes.insert(wire::literally(key) + "*");
    }
  }
  to.many[name + "-prefixes"] = {prefixes.begin(), prefixes.end()};
  for (const wire::S3Location& it : single)
    objects.push_back(arn + it.bucket + "/" + wire::literally(it.key));
}

// Fills in `<name>-objects`, `<name>-buckets` and `<name>-prefixes` of scripts/iam.
void add_places(const config::Job& job, wire::IamValues& values) {
  const std::string s3 = "arn:" + values.one["partition"] + ":s3:::";
  const config::TrainersPlaces trainers = config::trainers_places(job);
  const auto add = [&](const char* name, const Places& places, const Places& single = {}) {
    give(s3, name, places, single, values);
  };
  const auto there = [](std::initializer_list<std::optional<wire::S3Location>> places) {
    Places all;
    for (const auto& where : places)
      if (where) all.push_back(*where);
    return all;
  };
  add("channel", trainers.read, trainers.manifests);
  add("checkpoint", trainers.checkpoints);
  add("gang", trainers.gang);
  Places prepared, sent;
  for (const Source& source : job.prepare) {
    if (const auto where = wire::parse_s3_url(source.from)) prepared.push_back(*where);
    if (const auto via = wire::parse_s3_url(source.via)) {
      prepared.push_back(*via);
      sent.push_back(*via);
    }
  }
  const bool sends = job.launch && job.launch->package.is_sent();
  if (sends) sent.push_back(wire::parse_s3_url(job.launch->package.source).value());
  add("prepared", prepared);
  add("sent", sent);
  add("head", there({job.headed_at()}));
  add("home", there({job.headed_at(), job.kept_at()}));  // is there one, without a head?
  add("claim", job.claims ? Places{job.claims->at} : Places());
  add("fence", there({job.fenced_at()}));
  add("published", there({job.published_at()}));
  const bool sends_code = job.code && !job.code->folder.empty();
  add("code", sends_code ? there({job.published_in(config::code_folder)}) : Places());
  if (job.launch)
    if (const auto where = wire::parse_s3_url(job.launch->package.source))
      add("package", sends ? Places{*where} : Places(), sends ? Places() : Places{*where});
  if (job.sweep && !job.sweep->source.empty())
    if (const auto where = wire::parse_s3_url(job.sweep->source)) add("list", {}, {*where});
}

// The argument that prints commands, not a document: to make all roles.
constexpr const char* all_roles = "roles";

// In a sweep each experiment has its own volume, whose name ends with the index.
std::vector<std::string> names_of(const config::Job& job, const std::string& name) {
  std::vector<std::string> names{wire::literally(name)};
  if (job.sweep) names.push_back(wire::literally(name) + config::before_index + "*");
  return names;
}

// In the ARN of a snapshot there is no account.
std::string anybodys_snapshot(const wire::IamValues& values) {
  return "arn:" + values.one.at("partition") + ":ec2:" + values.one.at("region") + "::snapshot/";
}

void add_volumes(const config::Job& job, wire::IamValues& values) {
  if (job.storage.share) return;
  const std::string ec2 = arn("ec2", values.one["region"], values);
  values.one["tag-key"] = job.storage.ebs.tag.key;
  values.many["tag-values"] = names_of(job, job.storage.ebs.tag.value);
  values.many["volumes"] = {ec2 + "volume/*"};
  values.many["snapshots"] = {anybodys_snapshot(values) + "*"};
  values.many["holders"] = {ec2 + "instance/*"};
  for (const config::DataVolume& data : job.storage.data)
    values.many["data-snapshots"].push_back(anybodys_snapshot(values) + data.snapshot);
}

// Without the option iam EFS asks nobody who mounts: its file system's own policy decides.
void add_file_system(const config::Job& job, const std::string& efs, wire::IamValues& values) {
  if (!job.storage.share) return;
  const Share& share = *job.storage.share;
  const std::string id = config::efs_file_system(share, values.one["region"]);
  if (id.empty()) return;
  const auto& shown = values.many["file-systems"] = {efs + "file-system/" + id};
  if (config::mount_option(share, "iam")) values.many["mounted-file-systems"] = shown;
}

// A launcher looks at the code, and at no other secret of the job.
void add_secrets(const config::Job& job, const std::string& ssm, wire::IamValues& values) {
  std::set<std::string> secrets;
  const auto add = [&](const config::SecretReference& reference) {
    if (reference.kind != config::SecretReference::Kind::Parameter) return;
    const std::string slash = reference.target.starts_with('/') ? "" : "/";
    secrets.insert(ssm + "parameter" + slash + reference.target);
  };
  if (job.code && job.code->token) add(*job.code->token);
  values.many["code-token"] = {secrets.begin(), secrets.end()};
  if (job.notify.webhook) add(*job.notify.webhook);
  for (const auto& [name, reference] : job.trainer.secrets) add(reference);
  values.many["secrets"] = {secrets.begin(), secrets.end()};
}

// Has the job machines of its own? A container's role on Batch is agent's and trainer's.
bool has_machines(const config::Job& job) {
  return !(job.sweep && job.sweep->batch) || job.launch.has_value();
}

// By convention the trainer's role is named after the instances' role, and has no path.
std::string trainers_role(const config::Job& job, const std::string& instances) {
  return config::trainers_role(job.trainer, wire::iam_name(instances).name);
}

// The ARN of what is named by one, or by its name, in the account for which policies are printed.
std::string arn_of(const std::string& name, const char* kind, const wire::IamValues& values) {
  if (name.starts_with("arn:")) return name;
  return arn("iam", "", values) + kind + "/" + name;
}

void add_code(const config::Job& job, wire::IamValues& values) {
  if (!job.code || job.code->token) return;
  if (const auto it = wire::codecommit_repository(job.code->repository))
    values.many["code-repository"] = {arn("codecommit", it->region, values) +
                                      it->path.substr(it->path.rfind('/') + 1)};
}

void add_trainer_role(const config::Job& job, wire::IamValues& values) {
  if (config::has_instances_role(job.trainer) || !has_machines(job)) return;
  values.many["trainer-roles"] = {arn_of(trainers_role(job, values.one["role"]), "role", values)};
}

void add_batch(const config::Job& job, const std::string& batch, wire::IamValues& values) {
  if (!job.sweep || !job.sweep->batch) return;
  const auto& [environment, queue, definition] = *job.sweep->batch;
  values.many["batch-all"] = {"*"};
  values.many["batch-resources"] = {batch + "compute-environment/" + environment.name,
                                    batch + "job-definition/" + definition.name,
                                    batch + "job-definition/" + definition.name + ":*",
                                    batch + "job-queue/" + queue.name};
  values.many["batch-jobs"] = {batch + "job/*"};
  for (const std::string& role :
       {environment.instance_role, environment.service_role, definition.job_role})
    if (!role.empty()) {
      const bool is_profile = role.find(":instance-profile/") != role.npos;
      const std::string name = is_profile ? wire::iam_name(role).with_path() : role;  // its role's
      values.many["batch-roles"].push_back(arn_of(name, "role", values));
    }
  // Through an access point EFS asks who mounts.
  const std::string efs = arn("elasticfilesystem", values.one["region"], values) + "file-system/";
  for (const wire::BatchVolume& volume : definition.volumes)
    if (!volume.access_point.empty())
      values.many["mounted-file-systems"].push_back(efs + volume.file_system);
}

// Things that a fleet uses without making or changing them. CreateFleet and RequestSpotFleet are
// authorized on each of them, and the request carries tags of none.
// https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazonec2.html
std::set<std::string> used_things(const config::Launch& launch, const std::string& ec2,
                                  const std::string& here, const std::string& group) {
  const std::string anybodys = ec2 + here.substr(0, here.find(':')) + "::";
  std::set<std::string> used;
  const auto add = [&](const std::string& begin, const std::vector<std::string>& names) {
    if (names.empty()) used.insert(begin + "*");
    for (const std::string& name : names) used.insert(begin + name);
  };
  const bool named = launch.image.starts_with("ami-");
  add(anybodys + "image/", named ? std::vector{launch.image} : std::vector<std::string>{});
  add(anybodys + "snapshot/", {});
  add(ec2 + here + "subnet/", launch.subnets);
  add(ec2 + here + "security-group/", launch.security_groups);
  if (!launch.key.empty()) add(ec2 + here + "key-pair/", {launch.key});
  if (launch.reservation) add(ec2 + here + "capacity-reservation/", {launch.reservation->id});
  if (!group.empty()) add(ec2 + here + "placement-group/", {wire::literally(group)});
  for (const char* made : {"instance/", "network-interface/", "volume/"})
    add(ec2 + here + made, {});
  return used;
}

void add_launch(const config::Job& job, const std::string& here, wire::IamValues& values) {
  if (!job.launch) return;
  const std::string arn = "arn:" + values.one["partition"] + ":";
  const auto ec2 = [&](const char* what) { return arn + "ec2:" + here + what + "/*"; };
  values.many["launch-all"] = {"*"};
  values.many["spot-quotas"] = {arn + "servicequotas:" + here + "ec2/*"};
  values.many["launched-things"] = {ec2("fleet"), ec2("instance"), ec2("launch-template"),
                                    ec2("spot-fleet-request"), ec2("volume")};
  values.many["made-things"] = {ec2("fleet"), ec2("launch-template"), ec2("spot-fleet-request"),
                                ec2("volume")};
  if (!job.storage.share)
    values.many["deleted-things"] = {ec2("volume"), anybodys_snapshot(values) + "*"};
  constexpr std::string_view parameter = "resolve:ssm:";
  std::set<std::string> used, parameters;
  std::set<std::string> types{cheap_type};  // of machines that prepare and fetch
  for (std::size_t i = 0; i < std::max<std::size_t>(job.launch->places.size(), 1); ++i) {
    const config::Launch there = config::launch_at(*job.launch, i);
    used.merge(used_things(there, arn + "ec2:", here, launch::placement_group_of(job)));
    types.insert(there.instance_types.begin(), there.instance_types.end());
    if (!there.image.starts_with(parameter)) continue;
    const std::string name = there.image.substr(parameter.size());
    // AWS's own parameters belong to no account.
    const std::string whose = name.starts_with("/aws/") ? values.one["region"] + "::" : here;
    parameters.insert(arn + "ssm:" + whose + "parameter" + (name.starts_with('/') ? "" : "/") +
                      name);
  }
  values.many["used-things"] = {used.begin(), used.end()};
  values.many["launched-types"] = {types.begin(), types.end()};
  if (job.launch->reservation) values.many["reservation-all"] = {"*"};
  if (!job.launch->tags.empty()) values.many["tagged-disks"] = {ec2("volume")};
  // A stop deletes that of an earlier launch, too.
  if (job.gang) {
    values.many["placement-all"] = {"*"};
    values.many["ended-placement-groups"] = {arn + "ec2:" + here + "placement-group/" +
                                             launch::resource_name(job)};
  }
  if (job.launch->placement_group == config::own_placement_group)
    values.many["placement-groups"] = values.many["ended-placement-groups"];
  values.many["launch-templates"] = {ec2("launch-template")};
  values.many["launched-fleets"] = {ec2("fleet"), ec2("instance"), ec2("spot-fleet-request")};
  values.many["launched-groups"] = {arn + "autoscaling:" + here +
                                    "autoScalingGroup:*:autoScalingGroupName/" +
                                    launch::resource_name(job)};
  // Pools in several regions are of no group; one of an earlier launch is to be ended.
  if (job.launch->places.size() < 2) values.many["made-groups"] = values.many["launched-groups"];
  using When = config::OnDemand::When;
  const auto& reservation = job.launch->reservation;
  if (job.launch->on_demand.when != When::Never || (reservation && reservation->interruptible))
    values.many["on-demand-prices"] = {"*"};
  if (job.launch->on_demand.needs_watcher())
    values.many["watched-fleets"] = {ec2("fleet"), ec2("spot-fleet-request")};
  values.many["image-parameters"] = {parameters.begin(), parameters.end()};
  values.many["launch-roles"] = {arn_of(values.one["role"], "role", values)};
  values.many["instance-profiles"] = {arn_of(job.launch->profile, "instance-profile", values)};
  if (!job.launch->fleet_role.empty())
    values.many["launch-roles"].push_back(job.launch->fleet_role);
}

struct IamOptions {
  std::string document;
  std::string job = "job.yaml";
  IamScope scope;
  std::string region;
};

// Only the manifest itself says where its objects lie.
void remark_manifests(const config::Job& job) {
  const bool listed = std::ranges::any_of(job.channels.all, [](const wire::Channel& it) {
    return it.type != wire::S3DataType::S3Prefix;
  });
  if (listed && job.trainer.reads.empty())
    io::complain("iam",
                 "a manifest's objects may lie anywhere: name their places in trainer.reads");
}

// The policy without the statements' names, which IAM counts, too.
std::string without_names(const std::string& document) {
  auto shorter = OrderedJson::parse(document);
  for (auto& statement : shorter["Statement"]) statement.erase("Sid");
  return shorter.dump(2);
}

std::string too_long_for_a_user(std::size_t characters, const std::string& text) {
  if (characters > longest_managed) {
    const auto policy = nlohmann::json::parse(text);
    const bool divides = std::ranges::all_of(policy.at("Statement"), [](const auto& statement) {
      return policy_characters(statement.dump()) < longest_managed;
    });
    return with_commas(characters) + " characters, and a managed policy has at most " +
           with_commas(longest_managed) +
           ": make several of it, each with some of the statements, which may be divided anywhere" +
           (divides ? ""
                    : "; one statement is too long alone: name a prefix that its resources share "
                      "(trainer.reads)");
  }
  return with_commas(characters) + " characters, and all policies in a user have at most " +
         with_commas(longest_of_a_user) +
         " together: make a managed policy of it (aws iam create-policy, then "
         "attach-user-policy), which may have " +
         with_commas(longest_managed);
}

// Says what is not in the document, or what IAM does with one of this length.
int remark(const std::string& name, const std::string& text, const config::Job& job) {
  if (name == "trainer") remark_manifests(job);
  if (name == "agent" && config::has_instances_role(job.trainer))
    io::complain("iam",
                 "trainer.role is the instances': it needs what `spotter iam trainer` "
                 "prints, too");
  const std::size_t characters = policy_characters(text);
  if (name != "launcher") {
    const std::string problem = too_long_for_a_role(characters);
    return problem.empty() ? 0 : io::complain("iam", problem);
  }
  if (characters > longest_of_a_user) io::complain("iam", too_long_for_a_user(characters, text));
  return characters > longest_managed ? 1 : 0;
}

// Batch takes user data in this format only. ECS's agent does not drain by default, and sends
// SIGKILL 30 s after SIGTERM; of a notice's two minutes 100 s are the trainer's here, and some are
// left to ECS and Spotter.
// https://docs.aws.amazon.com/batch/latest/userguide/launch-templates.html
// https://docs.aws.amazon.com/AmazonECS/latest/developerguide/container-instance-spot.html
// https://docs.aws.amazon.com/AmazonECS/latest/developerguide/ecs-agent-config.html
constexpr std::string_view ecs_user_data =
    "MIME-Version: 1.0\n"
    "Content-Type: multipart/mixed; boundary=\"==spotter==\"\n\n"
    "--==spotter==\n"
    "Content-Type: text/x-shellscript; charset=\"us-ascii\"\n\n"
    "#!/bin/sh\n"
    "echo ECS_ENABLE_SPOT_INSTANCE_DRAINING=true >>/etc/ecs/ecs.config\n"
    "echo ECS_CONTAINER_STOP_TIMEOUT=100s >>/etc/ecs/ecs.config\n"
    "--==spotter==--\n";

class Commands {
 public:
  Commands(wire::IamValues values, std::string policy)
      : values_(std::move(values)), policy_(std::move(policy)) {}

  void remark(const std::string& text) { text_ += "# " + text + "\n"; }
  void iam(const char* action, const OrderedJson& input) {
    text_ += wire::command_of({"iam", action, input.dump()}) + "\n";
    calls_.push_back({action, input.get<std::map<std::string, std::string>>()});
  }
  void role(const RolePolicies& it) {
    if (!it.account.empty() && it.account != values_.one["account"])
      return remark(it.what + " is of the account " + it.account + ": there it is to trust " +
                    arn_of(values_.one["role"], "role", values_) + ", and to have what `spotter " +
                    "iam " + it.documents.front() + "` prints");
    if (auto wrong = wire::wrong_iam_name({"", it.path, it.role}, wire::longest_role_name);
        !wrong.empty())
      return trouble(it.what + ": " + wrong);
    std::vector<OrderedJson> policies;
    std::size_t characters = 0;
    for (const std::string& name : it.documents) {
      const auto whole = filled(name, values_);
      if (!whole) return trouble(it.what + ": " + whole.error().message);
      const std::string document = without(left_out_, *whole);
      if (document.empty()) continue;
      characters += policy_characters(document);
      // A job's name has no dot: no other job's policy is named so.
      policies.push_back({{"RoleName", it.role},
                          {"PolicyName", policy_ + (policies.empty() ? "" : "." + name)},
                          {"PolicyDocument", document}});
    }
    remark(it.what + ": " + with_commas(characters) + " of the " + with_commas(longest_of_a_role) +
           " characters that all policies in a role have together");
    if (const auto problem = too_long_for_a_role(characters); !problem.empty())
      trouble(it.what + ": " + problem);
    const auto path = [&](OrderedJson input) {
      if (it.path != "/") input["Path"] = it.path;
      return input;
    };
    iam("CreateRole",
        path({{"RoleName", it.role},
              {"AssumeRolePolicyDocument", without({}, filled(it.trust, values_).value_or(""))}}));
    for (const OrderedJson& policy : policies) iam("PutRolePolicy", policy);
    if (!it.managed.empty())
      iam("AttachRolePolicy",
          {{"RoleName", it.role},
           {"PolicyArn", "arn:" + values_.one["partition"] + ":iam::aws:policy/" + it.managed}});
    if (!it.has_profile) return;
    remark("The profile that gives it to the instances");
    iam("CreateInstanceProfile", path({{"InstanceProfileName", it.role}}));
    iam("AddRoleToInstanceProfile", {{"InstanceProfileName", it.role}, {"RoleName", it.role}});
  }
  // A fleet whose service-linked role may not use the key launches nothing with such a volume.
  // https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-fleet-prerequisites.html
  void grant(const std::string& key, const std::string& service, const std::string& role) {
    const OrderedJson input = {
        {"KeyId", key},
        {"GranteePrincipal",
         arn_of("aws-service-role/" + service + ".amazonaws.com/" + role, "role", values_)},
        {"Operations",
         {"CreateGrant", "Decrypt", "DescribeKey", "Encrypt", "GenerateDataKey",
          "GenerateDataKeyWithoutPlaintext", "ReEncryptFrom", "ReEncryptTo"}}};
    text_ += wire::command_of({"kms", "CreateGrant", input.dump()}) + "\n";
  }
  void launch_template(const std::string& name) {
    const OrderedJson data = {{"UserData", wire::to_base64(ecs_user_data)},
                              {"MetadataOptions",
                               {{"HttpEndpoint", "enabled"},
                                {"HttpTokens", "required"},
                                {"HttpPutResponseHopLimit", 2}}}};
    text_ += wire::command_of(
                 {"ec2", "CreateLaunchTemplate",
                  OrderedJson{{"LaunchTemplateName", name}, {"LaunchTemplateData", data}}.dump()}) +
             "\n";
  }
  void leave_out(std::set<std::string> statements) { left_out_ = std::move(statements); }
  RoleCommands all() && { return {std::move(text_), std::move(problems_), std::move(calls_)}; }

 private:
  void trouble(const std::string& text) { problems_ += (problems_.empty() ? "" : "; ") + text; }
  // In one line.
  static std::string without(const std::set<std::string>& names, const std::string& document) {
    if (document.empty()) return document;
    OrderedJson json = OrderedJson::parse(document);
    OrderedJson left = OrderedJson::array();
    // A whole bucket is listed without a prefix, too, which "*" would refuse.
    const OrderedJson any = {{"StringLike", {{"s3:prefix", {"*"}}}}};
    for (OrderedJson& it : json["Statement"]) {
      if (names.contains(it.value("Sid", ""))) continue;
      if (!names.empty() && it.value("Condition", OrderedJson()) == any) it.erase("Condition");
      left.push_back(it);
    }
    json["Statement"] = std::move(left);
    return json.dump();
  }

  wire::IamValues values_;
  std::string policy_;
  std::set<std::string> left_out_;  // statements, by their Sid
  std::string text_;
  std::string problems_;
  std::vector<IamCall> calls_;
};

// The service by whose role a fleet's instances are launched, and the role's name.
std::pair<const char*, const char*> maker_of(FleetKind kind) {
  if (kind == FleetKind::AutoScalingGroup) return {"autoscaling", "AWSServiceRoleForAutoScaling"};
  if (kind == FleetKind::SpotFleet) return {"spotfleet", "AWSServiceRoleForEC2SpotFleet"};
  return {"ec2fleet", "AWSServiceRoleForEC2Fleet"};
}

// The service-linked roles of EC2 and Auto Scaling: made once in an account.
std::set<std::string> services_of(FleetKind kind) {
  if (kind == FleetKind::AutoScalingGroup) return {"spot", "autoscaling"};
  return {"spot", kind == FleetKind::SpotFleet ? "spotfleet" : "ec2fleet"};
}

// A job that has everything which setup cares for; its places are replaced.
constexpr std::string_view any_job =
    "job: any\nstorage: {ebs: {tag: {Name: any}, mount: /mnt/spotter}}\n"
    "trainer: {command: any, gpus: auto}\n";

RolePolicies named(const std::string& role, const char* trust, std::string what,
                   std::vector<std::string> documents) {
  const wire::IamName its = wire::iam_name(role);
  return {its.name, trust, std::move(what), std::move(documents), false, "", its.path, its.account};
}

// In a container agent and trainer are one to AWS: the job's role, else their host's.
void add_batch_roles(const config::Batch& batch, std::vector<RolePolicies>& roles) {
  RolePolicies hosts = named(batch.environment.instance_role, "trust-instance",
                             "The role of AWS Batch's instances", {});
  hosts.has_profile = true;
  hosts.managed = "service-role/AmazonEC2ContainerServiceforEC2Role";
  const std::vector<std::string> documents{"agent", "trainer"};
  if (batch.definition.job_role.empty()) {
    hosts.documents = documents;
    hosts.what +=
        ", and of every container on any of them: rather name this job's own in "
        "sweep.batch.job_role";
  }
  roles.push_back(std::move(hosts));
  if (!batch.definition.job_role.empty())
    roles.push_back(
        named(batch.definition.job_role, "trust-ecs-tasks", "The containers' role", documents));
}

RoleCommands role_commands(const config::Job& job, const IamScope& scope) {
  Commands commands(iam_values(job, scope), "spotter-" + job.name.str());
  for (const RolePolicies& it : roles_of(job, scope)) commands.role(it);
  const config::Batch* batch = job.sweep && job.sweep->batch ? &*job.sweep->batch : nullptr;
  std::set<std::string> services;
  if (job.launch) services = services_of(job.launch->type);
  if (batch != nullptr) services.insert({"batch", "spot"});
  if (!services.empty())
    commands.remark("AWS's own roles, once in an account: one that is there already is well");
  for (const std::string& service : services)
    commands.iam("CreateServiceLinkedRole", {{"AWSServiceName", service + ".amazonaws.com"}});
  if (job.launch && !scope.volume_keys.empty())
    commands.remark("Fleets make encrypted volumes by AWS's own role, which each key lets use it");
  for (const std::string& key : scope.volume_keys)
    if (job.launch) {
      const auto& [service, role] = maker_of(job.launch->type);
      commands.grant(key, service, role);
    }
  if (batch == nullptr) return std::move(commands).all();
  const std::string own = launch::resource_name(job) + ".batch";
  if (batch->environment.launch_template.empty())
    commands.remark("Then: sweep.batch.launch_template: " + own);
  commands.remark("Containers get SIGTERM at a notice, and reach the metadata service");
  commands.launch_template(own);
  return std::move(commands).all();
}

int print_roles(const config::Job& job, const IamScope& scope) {
  const RoleCommands commands = role_commands(job, scope);
  std::fputs(commands.text.c_str(), stdout);
  remark_manifests(job);
  return commands.problems.empty() ? 0 : io::complain("iam", commands.problems);
}

Result<int> print(IamOptions options) {
  const auto job = TRY(job_here(options.job));
  if (options.region.empty() && job.launch) options.region = job.launch->region;
  if (options.region.empty())
    options.region = act::configured_region(act::Environment::of_this_process()).str();
  if (options.region.empty()) return mistake("no region is known: --region, or set AWS_REGION");
  options.scope.region = Region(options.region);
  if (options.scope.role.empty()) options.scope.role = instances_role_of(job);
  if (const auto wrong =
          wire::wrong_iam_name(wire::iam_name(options.scope.role), wire::longest_role_name);
      !wrong.empty())
    return mistake("the instances' role: " + wrong);
  if (options.document == all_roles) return print_roles(job, options.scope);
  const wire::IamValues values = iam_values(job, options.scope);
  const auto whole = TRY(of_input(filled(options.document, values)));
  if (whole.empty()) return failure("the job needs no such policy: nothing is left of it");
  const bool is_long = options.document == "launcher" && policy_characters(whole) > longest_managed;
  const std::string text = is_long ? without_names(whole) : whole;
  std::printf("%s\n", text.c_str());
  return remark(options.document, text, job);
}

}  // namespace

wire::IamValues iam_values(const config::Job& job, const IamScope& scope) {
  wire::IamValues values;
  // A job with pools in several regions may use each region of the account; its tags say what it
  // may touch.
  const bool anywhere = job.launch && job.launch->places.size() > 1;
  const std::string region = anywhere ? "*" : scope.region.str();
  const wire::Partition& its = wire::partition_of(scope.region.str());
  values.one = {{"partition", std::string(its.name)},
                {"region", region},
                {"account", scope.account},
                {"role", wire::iam_name(scope.role).with_path()},
                {"job", job.name.str()}};
  const auto service = [&](const char* name) { return arn(name, region, values); };
  values.many["owners"] = names_of(job, job.name.str());
  values.many["volume-keys"] = scope.volume_keys;
  values.many["other-keys"] = scope.other_keys;
  for (const char* name : {"ssm", "s3", "sns"})
    values.many["others-as-kms-names-them"].push_back(std::string(name) + "." + region + "." +
                                                      std::string(its.suffix));
  const std::string ec2 = "ec2." + region + ".";
  values.many["ec2-as-kms-names-it"] = {ec2 + "amazonaws.com"};
  if (its.suffix != "amazonaws.com")
    values.many["ec2-as-kms-names-it"].push_back(ec2 + std::string(its.suffix));
  if (!job.notify.topic.empty()) values.many["topics"] = {job.notify.topic};
  if (job.claims || job.gang || job.trainer.gpus != 0)  // which it may lack
    values.many["claimants"] = {service("ec2") + "instance/*"};
  add_volumes(job, values);
  add_file_system(job, service("elasticfilesystem"), values);
  add_secrets(job, service("ssm"), values);
  add_code(job, values);
  add_trainer_role(job, values);
  add_batch(job, service("batch"), values);
  add_launch(job, region + ":" + scope.account + ":", values);
  add_places(job, values);
  return values;
}

void add_iam(CLI::App& app, int& status) {
  auto* command = app.add_subcommand(
      "iam",
      "Prints a role's or user's policy, or a role's trust policy, for the job of job.yaml; "
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
  command->add_option("--region", options->region,
                      "Default: that of launch.pools, else AWS_REGION");
  options->scope.role.clear();
  command->add_option("--role", options->scope.role,
                      "Of the instances, as their profile is named; default: launch.profile of "
                      "job.yaml, else spotter");
  command->add_option("--volume-key", options->scope.volume_keys,
                      "ARN of a KMS key with which the volume is encrypted; repeatable");
  command->add_option("--key", options->scope.other_keys,
                      "ARN of a KMS key with which parameters, objects or topics of the job are "
                      "encrypted; repeatable");
  command->callback([options, &status] { status = io::ended("iam", print(*options)); });
}

RoleCommands account_commands(const std::string& bucket, const std::vector<wire::S3Location>& read,
                              const IamScope& scope, bool shell) {
  const config::Job job = *config::parse_job(any_job, {});
  wire::IamValues values = iam_values(job, scope);
  const std::string s3 = "arn:" + values.one["partition"] + ":s3:::";
  values.one["job"] = "*";
  values.many["owners"] = values.many["tag-values"] = values.many["on-demand-prices"] = {"*"};
  values.many["secrets"] = {arn("ssm", scope.region.str(), values) + "parameter/spotter/*"};
  Places all{{bucket, ""}};
  for (const char* what : {"checkpoint", "head", "home", "claim", "gang", "fence", "published",
                           "code", "prepared", "package", "list"})
    give(s3, what, all, {}, values);
  all.insert(all.end(), read.begin(), read.end());
  give(s3, "channel", all, {}, values);
  Commands commands(std::move(values), "spotter-setup");
  // By a name alone: a volume of somebody else's may have it, and would be deleted.
  commands.leave_out({"UseTheVolumeThatTheTagNames", "ClaimTheVolumeThatTheTagNames"});
  auto roles = roles_of(job, scope);
  for (RolePolicies& it : roles) {
    if (shell && it.has_profile) it.managed = "AmazonSSMManagedInstanceCore";
    commands.role(it);
  }
  commands.remark("AWS's own roles, once in an account: one that is there already is well");
  for (const char* service : {"ec2fleet", "spot"})
    commands.iam("CreateServiceLinkedRole",
                 {{"AWSServiceName", std::string(service) + ".amazonaws.com"}});
  return std::move(commands).all();
}

std::string instances_role_of(const config::Job& job) {
  return job.launch ? wire::iam_name(job.launch->profile).with_path() : IamScope().role;
}

Result<std::string> filled(const std::string& document, const wire::IamValues& values) {
  for (const wire::IamDocument& known : wire::iam_documents()) {
    if (known.name != document) continue;
    const auto text = TRY(wire::fill_in(known, values));
    if (text.find("\"Effect\"") != text.npos) return text;
  }
  return "";
}

std::vector<RolePolicies> roles_of(const config::Job& job, const IamScope& scope) {
  std::vector<RolePolicies> roles;
  if (has_machines(job)) {
    roles.push_back(named(scope.role, "trust-instance", "The instances' role", {"agent"}));
    roles.front().has_profile = true;
    if (config::has_instances_role(job.trainer))
      roles.front().documents.emplace_back("trainer");
    else
      roles.push_back(named(trainers_role(job, scope.role), "trust-trainer", "The trainer's role",
                            {"trainer"}));
  }
  if (job.launch && !job.launch->fleet_role.empty())
    roles.push_back(
        named(job.launch->fleet_role, "trust-spot-fleet", "The Spot Fleet's role", {"spot-fleet"}));
  if (job.sweep && job.sweep->batch) add_batch_roles(*job.sweep->batch, roles);
  return roles;
}

std::size_t policy_characters(std::string_view document) {
  constexpr std::string_view white = " \t\r\n";
  return static_cast<std::size_t>(std::ranges::count_if(
      document, [&](char letter) { return white.find(letter) == white.npos; }));
}

std::string with_commas(std::size_t number) {
  std::string text = std::to_string(number);
  for (std::size_t at = text.size(); at > 3;) text.insert(at -= 3, ",");
  return text;
}

std::string too_long_for_a_role(std::size_t characters) {
  if (characters <= longest_of_a_role) return "";
  return with_commas(characters) + " characters, and all policies in a role have at most " +
         with_commas(longest_of_a_role) +
         " together: name in trainer.reads a prefix that many channels have, give each job a role "
         "of its "
         "own, or attach managed policies, each with some of the statements and at most " +
         with_commas(longest_managed);
}

}  // namespace spotter::command

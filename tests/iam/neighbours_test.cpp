// No policy of a job reaches what belongs to a job whose name begins or ends like its own. The fake
// AWS's judge is asked about each request that the other's policies allow.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "agent/commands/iam.hpp"
#include "agent/config/experiment.hpp"
#include "agent/config/trainer_role.hpp"
#include "tests/config/smallest.hpp"
#include "tests/world/access.hpp"

namespace spotter::command {
namespace {

using Json = nlohmann::json;
using world::AccessRequest;
using Verdict = world::Policy::Verdict;

constexpr const char* own = "mnist";
constexpr const char* neighbours[] = {"mnist2",  "mnist-big", "mnist-1x", "mnists",
                                      "mnist-7", "mnist-7-7", "mnis",     "a-mnist"};

constexpr const char* volume = "storage: {ebs: {tag: {Name: JOB}}}\n";
constexpr const char* bucket = "storage: {s3: s3://homes/jobs}\n";
constexpr const char* folder = "storage: {folder: {path: /data}}\n";
constexpr const char* sweep = "sweep: {grid: {lr: [1, 2, 3]}}\n";
constexpr const char* claims = "claims: {at: s3://data/claims}\n";
constexpr const char* trainer = "trainer: {command: ./t}\n";
constexpr const char* launch =
    "launch: {image: ami-1, instance_types: [g5.xlarge], zones: [us-west-2a], profile: spotter}\n";

// Every kind of job; JOB is its name.
const std::string kinds[] = {
    std::string(volume) + trainer,
    std::string(volume) + trainer + sweep + claims + launch,
    std::string(volume) + trainer + "fence: s3://data/fences\npublish: s3://data/seen\n",
    std::string(bucket) + trainer + sweep + claims + "publish: s3://data/seen\n",
    std::string(bucket) + trainer + launch,
    std::string(folder) + trainer +
        "gang: {size: 4, min: 2, at: s3://data/gangs}\n"
        "launch: {image: ami-1, instance_types: [g5.xlarge], zones: [us-west-2a], "
        "profile: spotter, type: auto-scaling-group}\n",
    std::string(folder) + trainer +
        "sweep:\n  grid: {lr: [1, 2]}\n  batch: {image: 'i:1', vcpus: 4, memory: 1000, "
        "max_vcpus: 8, subnets: [subnet-1], security_groups: [sg-1]}\n",
    std::string(volume) +
        "trainer: {command: ./t, env: {SPOTTER_CHECKPOINTS_S3: s3://copies/JOB}, "
        "reads: 's3://sets/JOB', writes: 's3://runs/JOB', secrets: {KEY: 'ssm:/keys/JOB'}}\n"
        "channels: {list: 's3://lists/JOB,type=manifest'}\n",
    std::string(volume) + trainer + sweep +
        "checkpoints: {folders: 'c-*', s3: 's3://kept/JOB'}\n"
        "prepare: [{from: /set, to: data, via: s3://way/JOB}]\n",
};

std::string with_name(std::string text, const std::string& name) {
  for (auto at = text.find("JOB"); at != text.npos; at = text.find("JOB", at + name.size()))
    text.replace(at, 3, name);
  return text;
}

config::Job job_of(const std::string& kind, const std::string& name) {
  const auto job =
      config::parse_job("job: " + name + "\n" + with_name(kind, name), config::as_root);
  EXPECT_TRUE(job) << config::describe(job.error(), "job.yaml");
  return *job;
}

using Documents = std::map<std::string, std::string>;

// By name; of an experiment, its trainer's session, too.
Documents documents_of(const config::Job& job) {
  IamScope scope{.account = "123456789012", .region = Region("us-west-2")};
  const auto values = iam_values(job, scope);
  Documents all;
  for (const char* name : {"agent", "launcher", "trainer"})
    if (auto text = filled(name, values); text && !text->empty()) all.emplace(name, *text);
  auto one = job;
  if (one.sweep) set_experiment(one, 1, {});
  all.emplace("session", config::session_policy(one, "aws").value());
  return all;
}

std::vector<std::string> list_of(const Json& value) {
  return value.is_array() ? value.get<std::vector<std::string>>()
                          : std::vector{value.get<std::string>()};
}

// Something that the pattern fits.
std::string example_of(std::string pattern) {
  for (auto at = pattern.find('*'); at != pattern.npos; at = pattern.find('*'))
    pattern.replace(at, 1, "0");
  return pattern;
}

// A statement's requests: each action on each resource, once for each value of each condition.
void add_requests(const Json& statement, std::vector<AccessRequest>& to) {
  if (!statement.contains("Action")) return;
  std::vector<std::string> resources = {"arn:aws:ec2:us-west-2:123456789012:instance/0"};
  if (statement.contains("Resource")) resources = list_of(statement["Resource"]);
  std::vector<AccessRequest> contexts{{}};
  const Json conditions = statement.value("Condition", Json::object());
  for (const auto& [operation, keys] : conditions.items())
    for (const auto& [key, values] : keys.items()) {
      if (operation == "Null" && list_of(values).front() == "true") continue;
      const bool any = operation == "Null" || operation == "Bool";
      std::vector<AccessRequest> more;
      for (const std::string& value : any ? std::vector<std::string>{"true"} : list_of(values))
        for (AccessRequest it : contexts) {
          it.know(key, example_of(value));
          more.push_back(it);
        }
      contexts = std::move(more);
    }
  for (const std::string& action : list_of(statement["Action"]))
    for (const std::string& resource : resources)
      for (AccessRequest it : contexts) {
        it.action = action;
        it.resource = example_of(resource);
        to.push_back(std::move(it));
      }
}

std::vector<AccessRequest> requests_of(const std::string& document) {
  std::vector<AccessRequest> all;
  const Json parsed = Json::parse(document);
  for (const Json& statement : parsed["Statement"]) add_requests(statement, all);
  return all;
}

bool names(const AccessRequest& request, const std::string& name) {
  const auto in = [&](const std::string& text) {
    const auto at = text.find(name);
    return at != text.npos;
  };
  return in(request.resource) ||
         std::ranges::any_of(request.context, [&](const auto& it) { return in(it.second); });
}

std::string described(const AccessRequest& request) {
  std::string text = request.action + " on " + request.resource;
  for (const auto& [key, value] : request.context) text += ", " + key + "=" + value;
  return text;
}

// EC2 authorizes a launch for each thing that it uses or makes; volumes are among the former.
bool is_a_launch(const std::string& action) {
  return action == "ec2:CreateFleet" || action == "ec2:RequestSpotFleet" ||
         action == "ec2:RunInstances";
}

// The requests of the other job's policy that name it.
std::vector<AccessRequest> others_own(const std::string& document, const std::string& other) {
  std::vector<AccessRequest> all = requests_of(document);
  std::erase_if(all, [&](const AccessRequest& request) {
    return !names(request, other) || is_a_launch(request.action);
  });
  return all;
}

// Those of them that this document allows, too.
std::vector<std::string> reached(const std::string& mine, const std::string& document,
                                 const std::string& other) {
  const auto policy = world::Policy::parse(mine);
  EXPECT_TRUE(policy);
  std::vector<std::string> found;
  for (const AccessRequest& request : others_own(document, other))
    if (policy->judge(request) != Verdict::NotAllowed) found.push_back(described(request));
  return found;
}

TEST(Policies, ReachNothingOfAJobWhoseNameIsLikeItsOwn) {
  for (const std::string& kind : kinds) {
    SCOPED_TRACE(kind);
    const Documents mine = documents_of(job_of(kind, own));
    for (const std::string other : neighbours) {
      std::size_t all = 0;
      for (const auto& [name, text] : documents_of(job_of(kind, other))) {
        const auto its = others_own(text, other);
        all += its.size();
        EXPECT_EQ(reached(text, text, other).size(), its.size()) << "its own are not allowed";
        EXPECT_EQ(reached(mine.at(name), text, other), std::vector<std::string>()) << name;
      }
      EXPECT_GT(all, 0U) << "nothing is named after the job";
    }
  }
}

// Shows that the test above is not blind.
TEST(Policies, WithAPatternOfTheNameAloneWouldReachIt) {
  for (const char* mark : {":", "/"}) {
    std::size_t all = 0;
    for (const std::string& kind : kinds) {
      Documents mine = documents_of(job_of(kind, own));
      for (const auto& [name, text] : documents_of(job_of(kind, "mnist-big"))) {
        std::string& wide = mine.at(name);
        const std::string narrow = std::string(own) + mark + "*";
        for (auto at = wide.find(narrow); at != wide.npos; at = wide.find(narrow, at))
          wide.replace(at, narrow.size(), std::string(own) + "*");
        all += reached(wide, text, "mnist-big").size();
      }
    }
    EXPECT_GT(all, 0U) << mark;
  }
}

TEST(Policies, OfASweepReachAllOfItsExperiments) {
  const auto job = job_of(kinds[1], own);
  const auto policy = world::Policy::parse(documents_of(job).at("agent"));
  ASSERT_TRUE(policy);
  AccessRequest request{"ec2:DeleteVolume", "arn:aws:ec2:us-west-2:123456789012:volume/vol-0"};
  auto one = job;
  set_experiment(one, 12, {});
  request.know("ec2:ResourceTag/spotter:job", one.volumes_owner());
  EXPECT_EQ(policy->judge(request), Verdict::Allowed);
}

TEST(Policies, OfATrainersSessionReachNoOtherExperiment) {
  for (const std::string& kind : {kinds[3], kinds[8]}) {
    auto one = job_of(kind, own), other = one;
    set_experiment(one, 1, {});
    set_experiment(other, 12, {});
    const auto policy = world::Policy::parse(config::session_policy(one, "aws").value());
    ASSERT_TRUE(policy);
    const auto place = [](const config::Job& job) {
      const auto home = job.kept_at() ? job.kept_at() : job.checkpoints_in_s3();
      return "arn:aws:s3:::" + home->bucket + "/" + home->key + "x";
    };
    EXPECT_EQ(policy->judge({"s3:PutObject", place(one)}), Verdict::Allowed) << place(one);
    EXPECT_EQ(policy->judge({"s3:PutObject", place(other)}), Verdict::NotAllowed) << place(other);
  }
}

}  // namespace
}  // namespace spotter::command

// `spotter iam lifecycle`: rules that remove from the job's buckets what nothing else removes.

#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>

#include "agent/aws/formats/aws_command.hpp"
#include "agent/commands/iam.hpp"
#include "agent/config/trainer_role.hpp"
#include "agent/io/log.hpp"

namespace spotter::command {
namespace {

using OrderedJson = nlohmann::ordered_json;

// A day for the longest upload, and one that S3 may take to notice.
constexpr int days = 2;

// https://docs.aws.amazon.com/AmazonS3/latest/API/API_LifecycleRule.html
OrderedJson rule(const std::string& name, const std::string& prefix, bool only_ours) {
  OrderedJson its = {{"ID", name},
                     {"Status", "Enabled"},
                     {"Filter", {{"Prefix", prefix}}},
                     {"AbortIncompleteMultipartUpload", {{"DaysAfterInitiation", days}}}};
  // In a versioned bucket what is removed, or written again, leaves a version.
  if (only_ours) its["NoncurrentVersionExpiration"] = {{"NoncurrentDays", days}};
  return its;
}

}  // namespace

int print_lifecycle(const config::Job& job) {
  std::map<std::string, std::vector<OrderedJson>> rules;  // by bucket
  const std::string name = "spotter-" + job.name.str();
  const auto add = [&](const wire::S3Location& where, const std::string& what, bool only_ours) {
    rules[where.bucket].push_back(rule(name + "-" + what, where.key, only_ours));
  };
  if (const auto home = job.kept_at()) add(*home, "home", true);
  if (const auto head = job.headed_at()) add(*head, "head", true);
  if (job.checkpoints.s3) add(*job.checkpoints.s3, "checkpoints", false);
  if (const auto where = config::copied_by_libspotter(job)) add(*where, "copies", false);
  for (std::size_t i = 0; i < job.trainer.writes.size(); ++i)
    add(job.trainer.writes[i], "written-" + std::to_string(i + 1), false);
  if (rules.empty()) return io::complain("iam", "the job copies no checkpoints to S3");
  for (const auto& [bucket, its] : rules) {
    std::printf(
        "# This replaces all rules that %s has: add to these what aws s3api "
        "get-bucket-lifecycle-configuration --bucket %s shows.\n",
        bucket.c_str(), bucket.c_str());
    const OrderedJson input = {{"Bucket", bucket}, {"LifecycleConfiguration", {{"Rules", its}}}};
    const auto command = wire::command_of("s3api", "PutBucketLifecycleConfiguration", input.dump());
    std::printf("%s\n", command.c_str());
  }
  return 0;
}

}  // namespace spotter::command

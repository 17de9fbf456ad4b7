#include "tests/world/batch/members.hpp"

#include "tests/world/batch/reader.hpp"

namespace spotter::world::batch {
namespace {

namespace part {

const std::string resources =
    "computeResources{allocationStrategy bidPercentage desiredvCpus=0 ec2KeyPair imageId "
    "instanceRole instanceTypes launchTemplate{launchTemplateId launchTemplateName version} "
    "maxvCpus minvCpus securityGroupIds spotIamFleetRole subnets tags{*} type} ";
const std::string pages = " maxResults nextToken";
const std::string order = " computeEnvironmentOrder{computeEnvironment order} priority state ";
const std::string retry =
    " retryStrategy{attempts evaluateOnExit{action onExitCode onReason onStatusReason}} "
    "timeout{attemptDurationSeconds} propagateTags parameters{*} tags{*} ";
const std::string container =
    "{command environment{name value} memory resourceRequirements{type value} vcpus";
// Roles are judged by iam:PassRole; a job's folders are this machine's, wherever they are mounted.
const std::string defined =
    " executionRoleArn image jobRoleArn linuxParameters{sharedMemorySize} "
    "mountPoints{containerPath "
    "readOnly sourceVolume} privileged=false readonlyRootFilesystem=false "
    "volumes{efsVolumeConfiguration{authorizationConfig{accessPointId iam} fileSystemId "
    "rootDirectory transitEncryption} host{sourcePath} name}} ";

}  // namespace part

const MemberTable table = {
    {"CreateComputeEnvironment",
     part::resources + "computeEnvironmentName serviceRole state tags{*} type"},
    {"UpdateComputeEnvironment", part::resources + "computeEnvironment serviceRole state"},
    {"DeleteComputeEnvironment", "computeEnvironment"},
    {"DescribeComputeEnvironments", "computeEnvironments" + part::pages},
    {"CreateJobQueue", part::order + "jobQueueName tags{*}"},
    {"UpdateJobQueue", part::order + "jobQueue"},
    {"DeleteJobQueue", "jobQueue"},
    {"DescribeJobQueues", "jobQueues" + part::pages},
    {"RegisterJobDefinition", "containerProperties" + part::container + part::defined +
                                  part::retry + "jobDefinitionName platformCapabilities=ec2 type"},
    {"DeregisterJobDefinition", "jobDefinition"},
    {"DescribeJobDefinitions", "jobDefinitionName jobDefinitions status" + part::pages},
    {"SubmitJob", "arrayProperties{size} containerOverrides" + part::container +
                      "} dependsOn{jobId type} jobDefinition jobName jobQueue" + part::retry},
    {"CancelJob", "jobId reason"},
    {"TerminateJob", "jobId reason"},
    {"DescribeJobs", "jobs"},
    {"ListJobs", "arrayJobId filters{name values} jobQueue jobStatus" + part::pages},
    {"TagResource", "resourceArn tags{*}"},
    {"UntagResource", "resourceArn tagKeys"},
    {"ListTagsForResource", "resourceArn"},
};

}  // namespace

const MemberTable& members() { return table; }

std::optional<ApiError> refuse_members(const std::string& operation, const Json& request) {
  const auto why = world::refuse_members(table.at(operation), request);
  return why ? std::optional(client_error(*why)) : std::nullopt;
}

}  // namespace spotter::world::batch

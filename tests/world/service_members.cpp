// The members that the operations of small services honour.
#include "tests/world/service_members.hpp"

namespace spotter::world {
namespace {

// https://docs.aws.amazon.com/IAM/latest/APIReference, /STS/latest/APIReference,
// /sns/latest/api, /efs/latest/ug/api-reference.html, /systems-manager/latest/APIReference,
// /servicequotas/2019-06-24/apireference, /aws-cost-management/latest/APIReference
const std::map<std::string, MemberTable> service_table = {
    {"iam",
     {{"AddRoleToInstanceProfile", "InstanceProfileName RoleName"},
      {"AttachRolePolicy", "PolicyArn RoleName"},
      {"AttachUserPolicy", "PolicyArn UserName"},
      {"CreateAccessKey", "UserName"},
      {"CreateInstanceProfile", "InstanceProfileName Path"},
      {"CreatePolicy", "Path=/ PolicyDocument PolicyName"},
      {"CreateRole", "AssumeRolePolicyDocument MaxSessionDuration=3600 Path RoleName"},
      {"CreateServiceLinkedRole", "AWSServiceName"},
      {"CreateUser", "Path=/ UserName"},
      {"GetInstanceProfile", "InstanceProfileName"},
      {"PutRolePolicy", "PolicyDocument PolicyName RoleName"},
      {"SimulatePrincipalPolicy",
       "ActionNames ContextEntries{ContextKeyName ContextKeyType ContextKeyValues} PolicySourceArn "
       "ResourceArns"}}},
    {"sts",
     {{"AssumeRole", "DurationSeconds Policy RoleArn RoleSessionName"}, {"GetCallerIdentity", ""}}},
    {"sns", {{"Publish", "Message Subject TopicArn"}}},
    {"efs",
     {{"CreateFileSystem",
       "AvailabilityZoneName Backup=false CreationToken Encrypted=false "
       "PerformanceMode=generalPurpose ThroughputMode=bursting"},
      {"CreateMountTarget", "FileSystemId SubnetId"},
      {"DescribeFileSystems", "CreationToken FileSystemId Marker MaxItems"},
      {"DescribeMountTargets", "FileSystemId Marker MaxItems MountTargetId"}}},
    // Each parameter is a plain text, so that there is nothing to decrypt.
    {"ssm", {{"GetParameter", "Name WithDecryption=true|false"}}},
    {"service-quotas", {{"GetServiceQuota", "QuotaCode ServiceCode=ec2"}}},
    // An answer has one product at most.
    {"pricing",
     {{"GetProducts",
       "Filters{Field=instanceType|regionCode|operatingSystem|preInstalledSw|tenancy|"
       "capacitystatus "
       "Type=TERM_MATCH Value} FormatVersion=aws_v1 MaxResults ServiceCode=AmazonEC2"}}},
};

}  // namespace

const std::map<std::string, MemberTable>& service_members() { return service_table; }

}  // namespace spotter::world

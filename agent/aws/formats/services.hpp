// The services of AWS of which we use a call or two.
#pragma once

#include "agent/aws/formats/ec2_query.hpp"
#include "agent/aws/formats/imds.hpp"

namespace spotter::wire {

// A call as it is sent, but for the endpoint and the signature.
struct HttpCall {
  std::string service;
  std::string action;
  std::string method = "POST";
  std::string target = "/";  // the path with its query
  std::vector<std::pair<std::string, std::string>> headers = {};
  std::string body = {};
  Repeatable repeatable = Repeatable::Read;
  Region region = {};        // that it is sent to; empty: the client's own
  std::string subject = {};  // of what, for a person: a parameter's name
};

HttpCall as_http(const Query& query);
inline HttpCall as_http(HttpCall call) { return call; }

struct Publish {
  using Answer = std::string;  // the message's id
  std::string topic;           // ARN
  std::string subject;         // what a mail has: 100 characters of ASCII at most, cut and cleaned
  std::string message;         // UTF-8, 256 KiB at most
};

Query encode(const Publish& request);

// Parameter Store's GetParameter (JSON 1.1). No I/O.
// Source: https://docs.aws.amazon.com/systems-manager/latest/APIReference/API_GetParameter.html
struct GetParameter {          // with decryption
  using Answer = std::string;  // the value, of which no error's message contains a part
  std::string name;
};

HttpCall encode(const GetParameter& request);

// Credentials of a role, from STS, and as programs in a container are given them. Coded like
// ec2_query.hpp. Sources: https://docs.aws.amazon.com/STS/latest/APIReference/API_AssumeRole.html
// and https://docs.aws.amazon.com/sdkref/latest/guide/feature-container-credentials.html

struct AssumeRole {
  using Answer = Credentials;  // always with their expiration
  std::string role;            // ARN
  std::string session;         // 2 to 64 of [A-Za-z0-9_=,.@-]: CloudTrail shows it
  // An hour is what a role may always be had for, and the most from another role.
  std::chrono::seconds duration{3600};
  std::string policy = {};  // of the session: what it leaves of the role's rights; empty: all
};

Query encode(const AssumeRole& request);
// Of this action, AssumeRole or AssumeRoleWithWebIdentity.
Result<Credentials> decode_assumed_role(std::string_view xml, const std::string& action);

// {"AccessKeyId", "SecretAccessKey", "Token", "Expiration", "RoleArn"}, the last unless `role` is
// empty. REQUIRES: an expiration; SDKs take none for an error.
std::string container_credentials(const Credentials& credentials, std::string_view role);

// {"code", "message"}: as SDKs expect it of such an endpoint with a status of 4xx or 5xx.
std::string container_error(std::string_view code, std::string_view message);

// The price list's GetProducts (JSON 1.1): what an instance costs on demand. No I/O.
// Sources: https://docs.aws.amazon.com/aws-cost-management/latest/APIReference/
// API_pricing_GetProducts.html, and for the products' attributes
// https://docs.aws.amazon.com/awsaccountbilling/latest/aboutv2/using-price-list-query-api.html

// Linux without anything on it, on shared hardware, used without a reservation.
struct GetProducts {
  // Dollars an hour: the lowest of the products that there are. Fails when none has a price in
  // dollars.
  using Answer = double;
  InstanceType type;
  Region region;
};

HttpCall encode(const GetProducts& request);

// Service Quotas' GetServiceQuota (JSON 1.1), and which quota counts which instances. No I/O.
// Sources:
// https://docs.aws.amazon.com/servicequotas/2019-06-24/apireference/API_GetServiceQuota.html and
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/spot-quotas.html,
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-on-demand-instances.html

// In vCPUs of all spot, or of all on-demand, instances of its families that the account has at
// once, in one region. New accounts have 0 of those with GPUs.
struct InstanceQuota {
  std::string_view code;  // L-3819A6DF
  std::string_view name;  // All G and VT Spot Instance Requests
};
// nullptr: of a family that is not known here.
const InstanceQuota* spot_quota_of(std::string_view instance_type);
const InstanceQuota* on_demand_quota_of(std::string_view instance_type);

struct GetEc2Quota {
  using Answer = double;  // the account's own value
  std::string code;
};

HttpCall encode(const GetEc2Quota& request);

// Amazon EFS: file systems, and their mount targets, by which instances of a zone reach them.
// REST-JSON: GET /2015-02-01/... No I/O.
//
// A decoder skips what it does not know, and fails on an answer that is no JSON object or lacks
// what it needs. Source: https://docs.aws.amazon.com/efs/latest/ug/api-reference.html

struct FileSystem {
  static constexpr std::string_view keys = "FileSystemId! LifeCycleState! AvailabilityZoneName";
  std::string id;     // fs-...
  std::string state;  // creating | available | updating | deleting | deleted | error
  Zone zone;          // of a One Zone file system; empty: one of the region
};
struct DescribeFileSystems {
  using Answer = Page<FileSystem>;
  std::string id;  // FileSystemNotFound where there is none
  std::string next_token = {};
};

struct MountTarget {
  static constexpr std::string_view keys = "MountTargetId! LifeCycleState! AvailabilityZoneName!";
  std::string id;     // fsmt-...
  std::string state;  // as of a file system
  Zone zone;
};
struct DescribeMountTargets {
  using Answer = Page<MountTarget>;
  std::string file_system;
  std::string next_token = {};
};

HttpCall encode(const DescribeFileSystems& request);
HttpCall encode(const DescribeMountTargets& request);

}  // namespace spotter::wire

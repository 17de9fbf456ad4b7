// Amazon EFS: file systems, and their mount targets, by which instances of a zone reach them.
// REST-JSON: GET /2015-02-01/... No I/O.
//
// A decoder skips what it does not know, and fails on an answer that is no JSON object or lacks
// what it needs. Source: https://docs.aws.amazon.com/efs/latest/ug/api-reference.html
#pragma once

#include <string>
#include <string_view>

#include "agent/aws/formats/ec2_query.hpp"
#include "agent/base/names.hpp"
#include "agent/base/result.hpp"

namespace spotter::wire {

struct EfsCall {
  std::string action;  // DescribeMountTargets
  std::string path;    // with its query: /2015-02-01/mount-targets?FileSystemId=fs-...
  Repeatable repeatable = Repeatable::Read;
};

struct FileSystem {
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
  std::string id;     // fsmt-...
  std::string state;  // as of a file system
  Zone zone;
};
struct DescribeMountTargets {
  using Answer = Page<MountTarget>;
  std::string file_system;
  std::string next_token = {};
};

EfsCall encode(const DescribeFileSystems& request);
EfsCall encode(const DescribeMountTargets& request);

}  // namespace spotter::wire

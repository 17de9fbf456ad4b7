// Finds an S3 request's operation, bucket and key in its method, host, path and query. Pure.
// Source: the "requestUri"s of https://docs.aws.amazon.com/AmazonS3/latest/API
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "tests/world/values.hpp"

namespace spotter::world::s3 {

enum class Operation : std::uint8_t {
  ListBuckets,
  CreateBucket,
  HeadBucket,
  DeleteBucket,
  GetBucketLocation,
  ListObjects,
  ListObjectsV2,
  DeleteObjects,
  ListMultipartUploads,
  GetObject,
  HeadObject,
  PutObject,
  CopyObject,
  DeleteObject,
  CreateMultipartUpload,
  UploadPart,
  UploadPartCopy,
  CompleteMultipartUpload,
  AbortMultipartUpload,
  ListParts,
};
std::string_view name(Operation operation);
// The IAM action that allows it, without its "s3:": HeadObject needs GetObject.
// https://docs.aws.amazon.com/AmazonS3/latest/userguide/using-with-s3-policy-actions.html
std::string_view permission(Operation operation);
bool writes(Operation operation);
// Its request has a body that is an object's content, and not a document.
bool carries_content(Operation operation);

using Fields = std::map<std::string, std::string>;

struct Request {
  Operation operation = Operation::ListBuckets;
  std::string bucket;
  std::string key;
  Fields query;    // decoded
  Fields headers;  // names in lower case

  std::string parameter(const std::string& name, const std::string& otherwise = {}) const;
  std::string header(const std::string& name) const;
};

// The bucket that a Host header names in virtual-host style, or empty: "data.localhost:4566",
// "data.s3.us-west-2.localhost", "data.s3.us-west-2.amazonaws.com".
std::string bucket_of_host(std::string_view host);

// `path`: decoded. Refuses with MethodNotAllowed, NotImplemented, InvalidBucketName,
// KeyTooLongError, InvalidURI (a key that is not UTF-8), and for what members.hpp does not honour.
Expected<Request> classify(const std::string& method, const std::string& path, Fields query,
                           Fields headers);

// A whole number of the query; `otherwise` where there is none.
Expected<std::uint64_t> parse_count(const Request& request, const std::string& name,
                                    std::uint64_t otherwise);

// https://docs.aws.amazon.com/AmazonS3/latest/userguide/bucketnamingrules.html
bool is_bucket_name(std::string_view name);
bool is_utf8(std::string_view text);

}  // namespace spotter::world::s3

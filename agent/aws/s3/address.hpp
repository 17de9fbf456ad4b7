// The address at which a bucket answers. Private to agent/aws/s3.
#pragma once

#include <map>
#include <string>

#include "agent/aws/s3/client.hpp"

namespace spotter::s3 {

struct Address {
  std::string base;  // https://bucket.s3.us-west-2.amazonaws.com
  std::string host;  // as the Host header has it
  std::string path;  // escaped
  Region region;     // that the signature names
};

// Source: https://docs.aws.amazon.com/AmazonS3/latest/userguide/VirtualHosting.html
class Addresses {
 public:
  explicit Addresses(const Settings& settings);

  Address of(const std::string& bucket, const std::string& key) const;

  // S3 said that the bucket is elsewhere. Only a host of AWS's own is followed: the session's token
  // goes there, too. False: that is nothing new.
  bool redirect(const std::string& bucket, const std::string& region, const std::string& endpoint);

 private:
  struct Home {
    std::string region;
    std::string host;  // a temporary one, until DNS knows the bucket
  };

  act::Environment environment_;
  Region region_;
  Settings::Style style_;
  std::map<std::string, Home, std::less<>> homes_;
  // By region: a file may name it, and each request asks.
  mutable std::map<std::string, std::string> endpoints_;
};

}  // namespace spotter::s3

// S3 over HTTP from a folder. For several threads: nothing here waits for the fake world's own.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/emulator/http.hpp"
#include "tests/emulator/s3/signature.hpp"
#include "tests/emulator/s3/store.hpp"

namespace spotter::emulator::s3 {

struct ServiceParts {
  fs::path folder;
  std::string region;
  // The clocks by which a signature may be timely; the first is shown in Date.
  std::function<std::vector<WallTime>()> clocks;
  std::function<std::optional<SigningKey>(std::string_view access_key)> key;
};

struct Incoming;

class Service {
 public:
  explicit Service(ServiceParts parts);

  // Null when the request is not for S3: see is_s3().
  std::unique_ptr<HttpStream> begin(const HttpRequest& head);
  Store& store() { return store_; }
  const ServiceParts& parts() const { return parts_; }

 private:
  Incoming receive(const HttpRequest& head);
  std::optional<Refused> authorize(const Incoming& incoming);
  std::optional<Refused> refuse_region(const Incoming& incoming, const Bucket& bucket) const;

  ServiceParts parts_;
  Store store_;
  std::atomic<std::uint64_t> requests_{0};
};

// "The region 'x' is wrong; expecting 'y'"
Refused wrong_region(const std::string& given, const std::string& right);

// EC2 and S3 share one endpoint: told apart by the signature's service and the Host; what nobody
// signed is S3's where it names a path.
bool is_s3(const HttpRequest& head);

}  // namespace spotter::emulator::s3

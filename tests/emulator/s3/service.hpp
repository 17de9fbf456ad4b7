// S3 over HTTP from a folder. Thread-safe: nothing here waits for the fake world's own thread.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/emulator/http.hpp"
#include "tests/emulator/s3/signature.hpp"
#include "tests/emulator/s3/store.hpp"
#include "tests/emulator/s3/traffic.hpp"
#include "tests/emulator/s3/uploads.hpp"
#include "tests/world/access.hpp"
#include "tests/world/s3/faults.hpp"

namespace spotter::emulator::s3 {

struct ServiceParts {
  fs::path folder;
  std::string region;
  // The clocks by which a signature may be timely; the first is shown in Date.
  std::function<std::vector<WallTime>()> clocks;
  std::function<std::optional<SigningKey>(std::string_view access_key)> key;
  std::function<std::shared_ptr<const world::Access>()> access;  // null: everything is allowed
  std::string account;
  std::string role;
  std::function<Time()> now;                    // the world's
  std::function<Duration(Duration)> real_time;  // how long the world's time takes
  std::uint64_t seed = 0;                       // of the faults
};

struct Usage {
  std::map<std::string, std::uint64_t> requests;  // by operation
  std::uint64_t bytes_read = 0;                   // of objects, as far as they were to be sent
};

struct Incoming;

class Service {
 public:
  explicit Service(ServiceParts parts);

  // Null when the request is not for S3: see is_s3().
  std::unique_ptr<HttpStream> begin(const HttpRequest& head);
  Store& store() { return store_; }
  Uploads& uploads() { return uploads_; }
  const ServiceParts& parts() const { return parts_; }
  const Traffic& traffic() const { return traffic_; }

  // One of fault_names(), or one that EC2 has, too (is_shared).
  Expected<void> fault(const std::string& name,
                       const std::map<std::string, std::string>& arguments);
  static bool is_own_fault(const std::string& name);
  static std::vector<std::string> fault_names();
  bool hides_missing_keys();
  bool reset();  // no bucket, no fault, no request was counted; false: some file stayed
  Usage usage();
  void count_bytes(std::uint64_t bytes) { bytes_read_ += bytes; }

 private:
  api::Treatment treat(const api::Request& request);
  std::string derived(std::string_view secret, const Authorization& authorization);
  Incoming receive(const HttpRequest& head);
  std::optional<Refused> authorize(const Incoming& incoming);
  std::optional<Refused> refuse_access(const Incoming& incoming) const;
  std::optional<Refused> refuse_region(const Incoming& incoming, const Bucket& bucket) const;

  ServiceParts parts_;
  Store store_;
  Uploads uploads_{store_};
  Traffic traffic_;
  std::atomic<std::uint64_t> requests_{0};
  std::atomic<std::uint64_t> bytes_read_{0};
  std::mutex mutex_;                            // of the next three
  std::map<std::string, std::string> derived_;  // signing keys
  api::Faults faults_;
  std::map<std::string, std::uint64_t> counted_;
};

// "The region 'x' is wrong; expecting 'y'"
Refused wrong_region(const std::string& given, const std::string& right);

// EC2 and S3 share one endpoint: distinguished by the signature's service and the Host; what nobody
// signed is S3's where it names a path.
bool is_s3(const HttpRequest& head);

}  // namespace spotter::emulator::s3

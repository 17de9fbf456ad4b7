// The jobs that publish their history into the emulator's own S3 (`publish:` of job.yaml), and
// sweeps whose claims are there (`claims:`), as the page shows them. One thread at a time may use
// it.
#pragma once

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "agent/report/model.hpp"
#include "tests/emulator/s3/store.hpp"

namespace spotter::emulator {

class Published {
 public:
  explicit Published(s3::Store& store) : store_(store) {}

  struct Job {
    std::string bucket, prefix;  // the prefix ends with '/'
    std::string name;
    std::string key() const { return bucket + "/" + prefix; }
  };
  // Looks into each bucket, at most once a second and only as deep and wide as jobs publish.
  const std::vector<Job>& jobs(double now);

  // The page's model of the job; the same object until something changes. Null: no such job.
  std::shared_ptr<const nlohmann::json> model(const std::string& key, double now,
                                              const report::Prices& prices);

 private:
  using Files = std::vector<std::pair<std::string, s3::Identity>>;
  struct Known {
    Files files;
    std::shared_ptr<const nlohmann::json> model;
    double made = 0;      // when
    double patience = 0;  // how long it may be shown though nothing but time has changed
  };
  void search(const std::string& bucket, const std::string& prefix, int depth, int& left);
  Files files_below(const Job& job);
  std::string read(const std::string& bucket, const std::string& key);
  report::Input input(const Job& job, const Files& files);

  s3::Store& store_;
  std::vector<Job> jobs_;
  double looked_ = -1;
  std::map<std::string, Known> known_;
};

}  // namespace spotter::emulator

// Storages with a checkpoint directory, and an S3 beside them.
#pragma once

#include "agent/tier/tier.hpp"
#include "tests/guard/units.hpp"
#include "tests/s3/server.hpp"

namespace spotter::tier {

class InS3 : public guard::Units {
 protected:
  InS3();
  ~InS3() override;

  Options options(const std::string& job = "mine") const;
  // Does all from now on on an empty storage, like a machine that has lost its own.
  void lose_the_storage();
  // A folder of Transformers' is written, recorded and copied.
  void save(const std::string& name);
  void record_one(const std::string& name, const Steps& steps);
  Result<std::optional<std::string>> fetch();
  std::string fetched();  // the folder; "": none. A failure fails the test

  // The keys that S3 has, without the prefix that all begin with.
  std::vector<std::string> keys() const;
  std::string manifest_of(const std::string& folder) const;  // its key; "": there is none
  // The key of the bytes of a file of a folder that is there.
  std::string key_of(const std::string& folder, const std::string& file) const;
  void refuse_from(int request, int status);  // the first one is 1; 0: none

  // Every file's content, by its path below the folder.
  std::map<std::string, std::string> contents(const std::string& folder) const;
  // Checks that the guard finds it at the next start: whole, and recorded.
  void expect_whole(const std::string& folder) const;

  s3_test::Server server_;
  std::vector<std::string> said_;
  std::vector<std::filesystem::path> lost_;
};

}  // namespace spotter::tier

// A folder on its way from S3. Internal to tier.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "agent/aws/s3/client.hpp"
#include "agent/guard/place.hpp"
#include "agent/guard/refusal.hpp"
#include "agent/tier/manifest.hpp"

namespace spotter::tier {

class Download {
 public:
  using Done = Result<void, guard::Refusal>;

  // `from` is a key's beginning. REQUIRES: client and place outlive this.
  Download(s3::Client& client, const guard::Place& place, wire::S3Location from)
      : client_(client), place_(place), from_(std::move(from)) {}

  // As Store::fetch() promises.
  Done fetch(const Manifest& manifest);

 private:
  class File;
  class Writer;
  struct Piece {  // a range of a file
    std::size_t file;
    std::uint64_t offset;
    std::size_t bytes;
  };

  Done fetch_files(const Manifest& manifest, const std::filesystem::path& folder);
  Done receive(const std::vector<Piece>& pieces, const Manifest& manifest, Writer& writer);

  s3::Client& client_;
  const guard::Place& place_;
  wire::S3Location from_;
};

}  // namespace spotter::tier

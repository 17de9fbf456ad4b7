// A download's unfinished work: files that are not complete yet, ranges of them being fetched, and
// data being made durable.
#pragma once

#include <cstdint>
#include <filesystem>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/aws/s3/checksum.hpp"
#include "agent/data/catalogue.hpp"
#include "agent/data/fifo.hpp"

namespace spotter::data {
class Wanted;
}

namespace spotter::data::partial {

struct File {
  Wanted* wanted = nullptr;  // its channel
  const Entry* entry = nullptr;
  std::string name;               // relative to the channel's folder
  std::filesystem::path partial;  // its path until it is complete
  Descriptor open;                // while it is written
  std::uint64_t begin = 0;        // bytes that an earlier run left
  std::uint64_t digested = 0;     // of `begin`
  std::uint64_t planned = 0;
  std::uint64_t written = 0;
  bool asks = false;                     // for the checksum, by a request of its own
  std::optional<s3::Checksum> checksum;  // known
  std::optional<s3::Digest> digest;
};

struct Chunk {
  File* file = nullptr;
  std::uint64_t offset = 0;
  std::size_t size = 0;
  std::unique_ptr<char[]> bytes;
  bool whole = false;
};

struct Commit {
  std::vector<File*> files;
  File* partly = nullptr;
  std::uint64_t written = 0;  // of it
  std::future<int> synced;    // errno
};

}  // namespace spotter::data::partial

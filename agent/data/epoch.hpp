// Parts of Stream that only its own sources share.
#pragma once

#include "agent/data/stream.hpp"

namespace spotter::data {

// A range of an object, while it is in memory.
struct Stream::Chunk {
  std::string bucket;
  std::string key;
  std::string etag;
  std::string object() const { return bucket + "/" + key; }
  std::optional<s3::Checksum> known;  // of a large object, in its first chunk, once S3 has sent it
  bool first = false;
  bool last = false;  // of its object
  bool sums = false;  // S3 has a checksum of a large object: a request of its own gets it
  std::size_t size = 0;
  Memory::Piece piece;
  std::size_t arrived = 0;
  bool whole = false;     // all its bytes are here
  bool verified = false;  // compared with S3's checksum, as far as possible at this chunk
  std::size_t sent = 0;
  std::uint64_t spliced = 0;  // the stream's position up to which its own pages were moved
  std::string before;         // a record's header
  std::string after;          // its padding
  s3::Checksum checksum;
  s3::Client::CallId call = 0;
};

struct Stream::Epoch {
  Epoch(std::uint64_t number_, Fifo fifo_) : number(number_), fifo(std::move(fifo_)) {}

  std::uint64_t number;
  Fifo fifo;
  std::vector<std::uint32_t> order;  // of a shuffled channel
  std::size_t next = 0;              // the next object to plan, in the epoch's order
  std::uint64_t offset = 0;          // in it
  std::uint64_t skip = 0;  // bytes of the stream that are not planned: the reader has read them
  std::uint64_t drop = 0;  // bytes at the begin of what is planned that the reader has read, too
  std::deque<Chunk> chunks;
  std::vector<s3::Client::CallId> asked;
  s3::Digest digest{{}};
  std::string staged;          // bytes outside the memory, to be sent before all else
  std::string record;          // a gzip object that is to become one record
  std::uint64_t unpacked = 0;  // of the gzip object that is being sent
  std::uint64_t written = 0;   // into the FIFO
  struct InPipe {
    Memory::Region region;
    std::size_t size;
    std::uint64_t end;  // of `written`
  };
  std::deque<InPipe> in_pipe;
};

}  // namespace spotter::data

// The parts of Stream that its own files share.
#pragma once

#include "agent/data/stream.hpp"

namespace spotter::data {

// A range of an object, on its way through the memory.
struct Stream::Chunk {
  std::string bucket;
  std::string key;
  std::string etag;
  std::string object() const { return bucket + "/" + key; }
  std::optional<s3::Checksum> known;  // of a large object, once S3 has said it: its first chunk's
  bool first = false;
  bool last = false;  // of its object
  bool sums = false;  // S3 has a checksum of a large object: it is asked for beside
  std::size_t size = 0;
  Memory::Piece piece;
  std::size_t arrived = 0;
  bool whole = false;     // all of it is here
  bool verified = false;  // and is what S3 says it is, as far as that is known at this place
  std::size_t sent = 0;
  std::uint64_t spliced = 0;  // up to there in the stream its own pages went into the pipe
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
  std::size_t next = 0;              // the object to be planned, in the epoch's order
  std::uint64_t offset = 0;          // in it
  std::uint64_t skip = 0;  // bytes of the stream that are not planned: the reader has them
  std::uint64_t drop = 0;  // bytes at the begin of what is planned that it has, too
  std::deque<Chunk> chunks;
  std::vector<s3::Client::CallId> asked;
  s3::Digest digest{{}};
  std::string staged;          // bytes that are not in the ring, to be sent before all else
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

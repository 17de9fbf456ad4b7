// What of a channel's files is in memory, or on its way there: fetched from S3 by ranges, of the
// very object that was listed (If-Match), for whoever waits for it and ahead of those who read on.
//
// The kernel keeps what was read once: here a piece leaves when all of it was handed out, or when
// its room is needed and nobody waits for it (the one that was used longest ago).
#pragma once

#include <sys/uio.h>

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/aws/s3/client.hpp"
#include "agent/data/fast_file/read_ahead.hpp"
#include "agent/data/memory.hpp"

namespace spotter::fastfile {

struct RemoteFile {
  std::string bucket;
  std::string key;
  std::string etag;
  std::uint64_t size = 0;
  bool checksum = false;  // S3 has one: it is compared where one request fetches the whole file
};

class Cache {
 public:
  using ReadId = std::uint64_t;
  // The bytes, which stay until it returns; or what is wrong. A file that has failed once stays so:
  // the kernel asks a second time, and whoever waits has waited for the client's patience already.
  using Done = std::function<void(const std::vector<iovec>& bytes, const s3::Failure* failure)>;

  // REQUIRES: files and client outlive it.
  Cache(const std::vector<RemoteFile>& files, s3::Client& client, data::Memory memory);
  ~Cache();
  Cache(const Cache&) = delete;
  Cache& operator=(const Cache&) = delete;

  // Exactly these bytes, which the file has. Done is called from within advance().
  ReadId read(std::size_t file, std::uint64_t offset, std::size_t bytes, Done done);
  // Done is not called any more.
  void forget(ReadId read);

  // As much as can be done now, without waiting. To be called after every turn of the client and
  // every read().
  void advance();

 private:
  struct Piece;
  using Pieces = std::map<std::uint64_t, Piece>;  // by where they begin
  struct Read {
    ReadId id = 0;
    std::size_t file = 0;
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    Done done;
  };

  bool step(const Read& read);
  void hand_out(const Read& read);
  Piece* piece_at(std::uint64_t position);
  bool is_there(std::uint64_t begin, std::uint64_t end);
  std::uint64_t next_begin(std::uint64_t position) const;
  bool fetch_for(const Read& read, std::uint64_t position);
  bool fetch(std::size_t file, std::uint64_t begin, std::uint64_t end, bool ahead);
  void arrived(Piece& piece, const s3::Outcome<s3::Answer>& answer);
  bool make_room(std::size_t bytes, const Read* read);
  bool may_leave(const Piece& piece, const Read* read) const;
  void plan();
  bool plan_for(ReadAhead::Reader& reader, std::uint64_t window);
  std::size_t file_at(std::uint64_t position) const;
  void erase(Pieces::iterator piece);
  void clear_ended();

  const std::vector<RemoteFile>& files_;
  std::vector<std::uint64_t> begins_;  // of the files, and the end of the last
  s3::Client& client_;
  data::Memory memory_;
  std::size_t longest_piece_;
  ReadAhead ahead_;
  Pieces pieces_;
  std::list<std::uint64_t> used_;              // where pieces begin; used longest ago first
  std::list<Read> waiting_;                    // in the order in which they came
  std::vector<std::uint64_t> ended_;           // where pieces begin whose requests have, just now
  std::map<std::size_t, s3::Failure> broken_;  // files that readers have found to be so
  ReadId last_read_ = 0;
};

}  // namespace spotter::fastfile

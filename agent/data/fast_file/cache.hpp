// The files of a channel as a tree of folders. No I/O.
#pragma once

#include <sys/uio.h>

#include <list>
#include <optional>
#include <set>

#include "agent/aws/s3/checksum.hpp"
#include "agent/aws/s3/client.hpp"
#include "agent/data/memory.hpp"

namespace spotter::fastfile {

class Tree {
 public:
  using Number = std::uint32_t;  // of a node
  static constexpr Number root = 0;

  struct Node {
    std::string name;  // its last part
    Number parent = root;
    std::optional<std::size_t> file;  // index into the names; none: it is a folder
    std::vector<Number> children;     // of a folder, in the order of their names' bytes
    std::int64_t modified = 0;        // seconds since 1970; of a folder: of the newest below it
  };

  struct File {
    std::string name;  // "a/b.bin": of data::file_name()
    std::int64_t modified = 0;
  };
  // Fails where one name is a file and a folder.
  static Result<Tree> make(const std::vector<File>& files);

  std::size_t size() const { return nodes_.size(); }
  const Node& at(Number number) const { return nodes_[number]; }
  std::optional<Number> find(Number folder, std::string_view name) const;

 private:
  std::vector<Node> nodes_;
};

// Finds out which readers read sequentially, and how far ahead of them it pays to fetch. Positions
// count through all files of a channel in the listing's order, so a process that reads small files
// in that order is sequential, too. No I/O; the caller passes the time.
//
// The window grows as long as a sequential reader has to wait, and no further: touching memory for
// the first time costs as much as receiving its bytes. A reader that jumps costs little. Several
// readers of one file are distinguished by their positions.
class ReadAhead {
 public:
  using Instant = std::chrono::steady_clock::time_point;

  struct Reader {
    std::uint64_t next = 0;     // where its next read is expected
    std::uint64_t run = 0;      // bytes that it has read without a gap
    std::uint64_t planned = 0;  // fetched for it up to there, or tried
    std::uint64_t window = 0;   // bytes beyond `next`
    std::uint64_t grown = 0;    // a read before it may wait: the window was smaller then
    Instant seen{};
  };

  // `room`: bytes of memory for all that is fetched ahead, of all readers together.
  explicit ReadAhead(std::uint64_t room) : room_(room) {}

  // Records a read of these bytes; `waits`: not all of them are in memory. Returns its reader, a
  // new one if none fits.
  const Reader& read(std::uint64_t begin, std::uint64_t bytes, bool waits, Instant now);

  // The most recently seen one comes first.
  std::vector<Reader>& readers() { return readers_; }

  // The number of bytes beyond `next` that are worth fetching: 0 for a reader that jumps.
  std::uint64_t window(const Reader& reader, Instant now) const;

 private:
  static bool reads_on(const Reader& reader) { return reader.run >= telling; }

  // The least run: reading a file's begin, with the kernel's read-ahead, is no sign yet.
  static constexpr std::uint64_t telling = 256U << 10;
  std::uint64_t room_;
  std::vector<Reader> readers_;
};

// The parts of a channel's files that are in memory or being fetched: ranges of exactly the objects
// that were listed (If-Match), for waiting reads and ahead of sequential readers.
//
// The kernel caches what was read. So a piece is dropped here when all of it was handed out, or
// when its memory is needed and no read waits for it (the least recently used one).
struct RemoteFile {
  std::string bucket;
  std::string key;
  std::string etag;
  std::uint64_t size = 0;
  // S3 has a checksum: compared where the whole file is fetched from its begin on. Then its last
  // piece is handed out only once all of it is right.
  bool checksum = false;
};

class Cache : Pinned {
 public:
  using ReadId = std::uint64_t;
  // Gets the bytes, which stay valid until it returns, or the failure. A file that failed once
  // keeps failing: the kernel asks twice, and the reader has waited for the client's retries once.
  using Done = std::function<void(const std::vector<iovec>& bytes, const s3::Failure* failure)>;

  // REQUIRES: files and client outlive the cache.
  Cache(const std::vector<RemoteFile>& files, s3::Client& client, data::Memory memory);
  ~Cache();

  // Reads exactly these bytes, which must be in the file. advance() calls `done`.
  ReadId read(std::size_t file, std::uint64_t offset, std::size_t bytes, Done done);
  // Its `done` is not called any more.
  void forget(ReadId read);

  // Does all that is possible without waiting. To be called after every turn of the client and
  // every read().
  void advance();

 private:
  struct Piece;
  using Pieces = std::map<std::uint64_t, Piece>;  // by their position
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
  s3::Failure corrupt(std::size_t file) const;
  void arrived(Piece& piece, const Result<s3::Answer, s3::Failure>& answer);
  bool make_room(std::size_t bytes, const Read* read);
  bool may_leave(const Piece& piece, const Read* read) const;
  void plan();
  bool plan_for(ReadAhead::Reader& reader, std::uint64_t window);
  std::size_t file_at(std::uint64_t position) const;
  void begin_check(std::size_t file);
  void go_on(std::size_t file);
  void drop_check(std::size_t file);
  bool is_awaited(const Piece& piece) const;
  bool can_end(std::size_t file);
  void erase(Pieces::iterator piece);
  void clear_ended();

  const std::vector<RemoteFile>& files_;
  std::vector<std::uint64_t> begins_;  // of the files, and the end of the last
  s3::Client& client_;
  data::Memory memory_;
  std::size_t longest_piece_;
  ReadAhead ahead_;
  Pieces pieces_;
  // A digest of a file that is fetched from its start on, to compare with S3's checksum.
  struct Check {
    std::uint64_t next = 0;            // position: the bytes before it are in the digest
    std::optional<s3::Digest> digest;  // none: S3 has not answered yet
    std::vector<s3::Client::CallId> calls;
  };
  std::map<std::size_t, Check> checks_;
  std::list<std::uint64_t> used_;              // positions of pieces, the least recently used first
  std::list<Read> waiting_;                    // in order of arrival
  std::vector<std::uint64_t> ended_;           // positions of pieces whose requests have just ended
  std::map<std::size_t, s3::Failure> broken_;  // files whose reads have failed
  std::set<std::size_t> spoiled_;              // those that S3's checksum does not fit
  ReadId last_read_ = 0;
};

}  // namespace spotter::fastfile

// A trainer's request that a channel begins at another position. Only the trainer knows from which
// checkpoint it resumes: one in a faster place, in S3, or an older one that a person chose. A
// trainer that does not ask begins at epoch 0.
//
//   <folder of the FIFOs>/.start/<channel>, "EPOCH:BYTES\n", put there by a rename
//
// The plane removes the file once the FIFOs begin there: that is the answer. It does so as soon as
// nobody reads the channel. A folder without .start belongs to a feeder that takes no requests.
#pragma once

#include <poll.h>

#include "agent/aws/s3/checksum.hpp"
#include "agent/aws/s3/client.hpp"
#include "agent/data/catalogue.hpp"
#include "agent/data/fetched.hpp"
#include "agent/data/fifo.hpp"
#include "agent/data/memory.hpp"

namespace spotter::data {

// The position at which a stream begins: after `bytes` bytes of that epoch.
struct Position {
  std::uint64_t epoch = 0;
  std::uint64_t bytes = 0;
  friend bool operator==(const Position&, const Position&) = default;
};

// "EPOCH:BYTES".
std::optional<Position> parse_position(std::string_view text);

class Requests {
 public:
  // Removes requests of an earlier run.
  static Result<Requests> make(const std::filesystem::path& fifos);
  Requests(Requests&& other) noexcept : folder_(std::move(other.folder_)) { other.folder_.clear(); }
  Requests& operator=(Requests&&) = delete;
  ~Requests();

  const std::filesystem::path& folder() const { return folder_; }
  // None: there is no request. Fails for text that is no position.
  Result<std::optional<Position>> asked(const std::string& channel) const;
  void answer(const std::string& channel) const;

 private:
  explicit Requests(std::filesystem::path folder) : folder_(std::move(folder)) {}

  std::filesystem::path folder_;
};

// Unpacks gzip objects one after the other, as their bytes arrive. Several members in one object
// are unpacked as one, as by gzip(1).
class Gunzip : Pinned {
 public:
  Gunzip();
  ~Gunzip();

  // Appends about `room` bytes at most to `out`; returns how many bytes of `in` it used. Fails for
  // input that is not gzip.
  Result<std::size_t> unpack(std::string_view in, std::string& out, std::size_t room);

  // Ends the object: fails when a member was cut off. The next object can then begin.
  Result<void> end();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// One channel's bytes, from S3 into the FIFOs of its epochs: NAME_0, NAME_1, ...
//
// A reader may read an epoch to its end; close early and open the same FIFO again (it continues at
// the next byte); open the next epoch instead (the rest of the previous one is dropped); read
// several channels at once or one after the other; never come. The next epoch's FIFO exists before
// this one can be opened, and its first bytes are fetched before this one has ended.
struct StreamSettings {
  wire::Channel channel;
  std::filesystem::path directory;  // of the FIFOs
  std::filesystem::path frozen;     // the listing's file; empty: none
  std::size_t budget = 0;           // bytes of memory
  bool splice = true;               // move pages into the pipe instead of copying
  Shard shard;
  Position start;
};

class Stream {
 public:
  // Called before a FIFO is made or has ended, for the holder of the second write ends.
  struct Callbacks {
    std::function<void(const std::string& name, int write_end)> made;
    std::function<void(const std::string& name)> ended;
  };

  // The client outlives it.
  static Result<std::unique_ptr<Stream>> make(StreamSettings settings, s3::Client& client,
                                              Callbacks callbacks);
  ~Stream();

  const std::string& name() const { return settings_.channel.name; }
  // Begins there from now on, in new FIFOs. False: not while a reader has one open.
  bool begin_at(Position start);

  // Does all that is possible without waiting. Called after every turn of the client, whenever the
  // FIFOs changed, and when poll_for() was ready.
  void advance();
  pollfd poll_for() const;
  // It waits for the reader to empty the pipe, which nothing signals: the caller must poll by time.
  bool needs_polling() const { return draining_ || (starved_ && in_pipe_ > 0); }

  const std::optional<std::string>& failed() const { return failed_; }
  // Whether its data can be had is known.
  bool answered() const { return failed_ || catalogue_.answered(); }

  std::uint64_t bytes() const { return bytes_; }  // sent into the FIFOs
  // The time that a reader waited at an empty FIFO, for whatever reason.
  std::chrono::nanoseconds stalled() const { return stalled_; }

 private:
  struct Chunk;
  struct Epoch;
  Stream(StreamSettings settings, s3::Client& client, Callbacks callbacks, Memory memory);

  Result<std::unique_ptr<Epoch>> make_epoch(std::uint64_t number) const;
  bool is_planned(const Epoch& epoch) const;
  const Entry* next_entry(Epoch& epoch) const;
  std::size_t unit_size() const;
  std::size_t units() const;
  std::vector<std::uint32_t> needed_first() const;
  void plan_ahead();
  void plan(Epoch& epoch, std::size_t limit);
  bool plan_value(Epoch& epoch, const std::string& value);
  void skip(Epoch& epoch, const Entry& entry) const;
  bool plan_one(Epoch& epoch, const Entry& entry);  // false: there is no room now
  void fetch(Epoch& epoch, Chunk& chunk, const Entry& entry, std::uint64_t offset);
  void ask_for_checksum(Epoch& epoch, Chunk& chunk, std::uint64_t object_bytes);
  bool emit();                    // false: nothing more fits now, or has arrived
  bool emit_chunk(Chunk& chunk);  // false: not all of it was sent
  bool send_staged();
  bool send_bytes(Chunk& chunk, std::size_t until);
  bool send(char* bytes, std::size_t size, bool splice, std::size_t& sent);
  void unpack(Chunk& chunk, std::size_t until);
  void verify(Chunk& chunk);
  void finish_chunk();
  bool end_epoch();
  void follow();
  void take_following();
  void measure();
  static std::vector<s3::Client::CallId> calls_of(const Epoch& epoch);
  void drop(Epoch& epoch);
  Result<void> make_epochs();
  void reclaim(Epoch& epoch);
  std::size_t left_to_send() const;
  void fail(const std::string& what);
  std::string name_of(const Epoch& epoch) const;

  StreamSettings settings_;
  s3::Client& client_;
  Callbacks callbacks_;
  Memory memory_;
  Catalogue catalogue_;
  // The unpacked sizes of gzip objects by ETag, learnt when they are read to their end, as gzip
  // does not state them. With them a stream that begins in the middle skips objects without
  // fetching them. An object of unknown size is fetched.
  Fetched unpacked_;
  std::unique_ptr<Epoch> current_;
  std::unique_ptr<Epoch> following_;
  Gunzip gunzip_;
  bool full_ = false;        // the pipe
  bool draining_ = false;    // all is in the pipe, some of it our own pages
  std::size_t in_pipe_ = 0;  // bytes of the memory that wait in the pipe to be read
  bool starved_ = false;     // there was no memory for the next request
  std::optional<std::string> failed_;
  std::uint64_t bytes_ = 0;
  std::chrono::nanoseconds stalled_{0};
  std::optional<std::chrono::steady_clock::time_point> hungry_since_;
};

}  // namespace spotter::data

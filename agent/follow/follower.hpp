// A file that another process appends to, writes over or replaces, line by line. It belongs to the
// trainer, as whose user this process reads it.
#pragma once

#include <chrono>
#include <deque>
#include <unordered_set>

#include "agent/io/files.hpp"
#include "agent/wire/metric_log.hpp"

namespace spotter::follow {

inline constexpr std::size_t most_bytes_a_look = 1U << 20;

class GrowingFile {
 public:
  // `pattern` may have the wildcards of glob(7) in it: the file that was changed last is read.
  // `longest`: a line with more bytes is left out.
  GrowingFile(std::string pattern, std::size_t longest)
      : pattern_(std::move(pattern)), longest_(longest) {}

  struct News {
    bool there = false;   // there is such a file, and it can be read
    bool begins = false;  // the lines are the first of a file: of another, or one written over
    bool more = false;    // there may be more to read by now
    std::vector<std::string> lines;  // without their newlines
  };

  // Reads what is new, up to the last newline, and makes it durable.
  News look();
  // The text behind the last newline.
  const std::string& rest() const { return partial_; }
  // Leaves that line out, however it goes on: its writer is dead.
  void drop_rest() {
    dropped_ = dropped_ || !partial_.empty();
    partial_.clear();
  }

 private:
  struct Identity {
    dev_t device = 0;
    ino_t inode = 0;
    bool operator==(const Identity&) const = default;
  };
  std::string newest() const;
  io::Descriptor open(Identity& identity, std::uint64_t& bytes) const;
  bool is_same(const io::Descriptor& file) const;
  void take(std::string_view piece, News& news);

  std::string pattern_;
  std::size_t longest_;
  Identity identity_;
  bool begun_ = false;
  std::uint64_t at_ = 0;  // so much of it is read
  std::string head_;      // the first of these bytes
  std::string tail_;      // and the last
  std::string partial_;   // of a line that has no newline yet
  bool dropped_ = false;  // that line is left out: too long, or its writer's last
};

// Reads the metrics in a trainer's own log, beside it, and reports them to the agent: `spotter
// follow-log`, started by `spotter supervise` before the trainer, as the trainer's user. It may do
// no more than the trainer: the file is read and the datagrams are sent with that user's rights.
//
// stdin:  a line when the trainer has ended: what is left is read, and we leave. The end of the
//         stream alone: the supervisor is dead, and we leave at once.
// stdout: one line, `ready`: from here on no row is missed.
//
// It reports the rows that the trainer adds, whatever their steps: if they go back, the trainer
// trains these again, and the curve loses its later points (wire/curve.hpp). If a file is written
// over, as some trainers write all epochs each time, it reports the rows from the first unknown
// one. If rows were there before the trainer started, it reports those behind the curve's last
// point: they were not reported before a machine was lost; without any curve they are another
// run's.

inline constexpr std::size_t most_points_a_look = 512;  // more are thinned
inline constexpr std::size_t most_known_rows = 1U << 20;
inline constexpr std::size_t most_old_bytes = 64U << 20;  // what is behind them counts as new

struct Options {
  std::string file;  // or a pattern, absolute
  std::string name;  // of the file as job.yaml has it, for words
  wire::LogKind kind = wire::LogKind::Csv;
  wire::LogColumns columns;
  std::string wanted;  // MetricLog
  std::string curve;   // the job's learning curve, which need not be there
  std::string socket;  // the agent's, for datagrams
  bool again = false;  // the trainer runs already: the follower before us died
};

class Follower {
 public:
  // Sends a datagram; false: nobody takes it now.
  using Send = std::function<bool(const std::string&)>;

  // `last`: the last step of the job's learning curve; none: there is no curve.
  Follower(const Options& options, std::optional<std::uint64_t> last, Send send)
      : options_(options),
        file_(options.file, wire::longest_log_line),
        log_(options.kind, options.columns, options.wanted),
        last_(last),
        send_(std::move(send)) {}

  // Reads what is there before the trainer starts; reports nothing yet.
  void begin();
  // Reports what is new. True: there may be more by now.
  bool look(std::chrono::milliseconds since_start);
  // The trainer has ended: what it left behind its last newline counts, if it is a whole row.
  void end();
  // All that was read is reported.
  bool is_done() const { return waiting_.empty(); }

 private:
  bool read(bool old);
  bool counts(const wire::CurvePoint& point, bool old) const;
  void take(const std::string& line, bool old, wire::Curve& curve);
  void queue(const wire::Curve& curve);
  void report_trouble(std::chrono::milliseconds since_start);
  bool send_waiting();

  const Options& options_;
  GrowingFile file_;
  wire::MetricLog log_;
  std::optional<std::uint64_t> last_;
  Send send_;
  std::unordered_set<std::size_t> known_;  // sums of the rows that were read
  bool rereads_ = false;                   // so far each row since the file's begin was known
  bool there_ = false;
  std::deque<std::string> waiting_;  // datagrams
  std::string said_;
};

// The point as a datagram (wire/datagram.hpp).
std::string to_datagram(const wire::CurvePoint& point);

// Everything of the command: until the line on stdin.
int run(const Options& options);

}  // namespace spotter::follow

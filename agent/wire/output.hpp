// What a trainer prints, on its way to a reader elsewhere. No I/O.
//
// An attempt's output is kept in pieces: the first MiB of it, and a ring of the last 3 MiB. Their
// files in $SPOTTER_RUN/output, and objects in S3, are called ATTEMPT-SLOT.jsonl. A piece grows by
// whole lines until it is full, and then stays as it is until the ring comes to its slot again:
//
//   {"version":1,"job":"mnist","piece":12}    the first line: its number in the attempt
//   {"time":1700000000.25,"text":"a\nb\n"}    lines, and when they were seen
//   {"time":1700000009.25,"left_out":81920}   bytes that came faster than they may leave
//   {"time":1700000011.25,"ended":"exit status 1"}   the attempt's last line
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace spotter::wire {

// Masks secrets in a stream, also where one comes in several parts.
class Mask {
 public:
  static constexpr std::size_t shortest = 4;  // a shorter value would mask words of all kinds

  explicit Mask(const std::vector<std::string>& secrets);

  // The bytes that can be said now; the beginning of what may be a secret waits for the next ones.
  std::string feed(std::string_view bytes);
  // The bytes that wait: nothing follows.
  std::string rest() { return std::exchange(text_, {}); }
  // The next bytes begin anywhere, perhaps within a secret, of whose end not four bytes are left.
  void cut();

 private:
  std::size_t waiting() const;
  std::size_t end_of_secret() const;

  std::vector<std::string> secrets_;  // the longest first
  std::string text_;
  bool cut_ = false;
};

// Makes lines of what was printed, as a terminal shows them at their end: a carriage return goes
// back to the line's beginning. Colours and other control sequences are left out. A longer line
// than `longest` is several.
class TerminalLines {
 public:
  static constexpr std::size_t longest = 16U << 10;

  // Whole lines, each with its end.
  std::string feed(std::string_view bytes);
  // The unfinished line, with an end; empty: there is none.
  std::string rest();
  // Leaves out the bytes up to the next line's beginning.
  void skip_to_next_line();

 private:
  enum class State : std::uint8_t { Text, Escape, Sequence, Command };

  void take(char byte, std::string& lines);
  void take_text(char byte);
  void end_sequence(char last);
  void end_line(std::string& lines);

  std::vector<std::string> cells_;  // characters
  std::size_t column_ = 0;
  std::string parameters_;
  State state_ = State::Text;
  bool skips_ = false;
};

struct OutputRecord {
  static constexpr std::string_view keys = "time! text? left_out? ended?";
  double time = 0;  // seconds since 1970
  std::string text;
  std::uint64_t left_out = 0;
  std::optional<std::string> ended;
};

std::string to_line(const OutputRecord& record);

struct OutputPiece {
  static constexpr std::string_view keys = "job piece! - -";
  std::string job;
  std::uint64_t number = 0;
  std::vector<OutputRecord> records;
  std::string newer;  // not empty: a newer Spotter wrote it, which this tells a person
};
// None: it is no piece. Leaves out lines that are no records.
std::optional<OutputPiece> parse_output(std::string_view bytes);

// The pieces of an attempt that is written.
class OutputPieces {
 public:
  static constexpr std::size_t piece_bytes = 128U << 10;
  static constexpr std::uint64_t first_pieces = 8, last_pieces = 24;

  explicit OutputPieces(std::string job) : job_(std::move(job)) {}

  // Adds whole lines, which may begin new pieces.
  void add(OutputRecord record);
  // The pieces that have changed since the last call, by their slots.
  std::map<std::uint64_t, std::string> take_changed();

  static std::uint64_t slot_of(std::uint64_t piece);

 private:
  void put(const OutputRecord& record);

  std::string job_;
  std::uint64_t number_ = 0;
  std::string bytes_;
  std::map<std::uint64_t, std::string> full_;
  bool changed_ = false;
};

// "1700000000000-i-0abc" and its slot: "1700000000000-i-0abc-07.jsonl".
struct OutputName {
  std::string attempt;
  std::uint64_t slot = 0;
};
std::string to_text(const OutputName& name);
std::optional<OutputName> parse_output_name(std::string_view text);

// Follows what is published of a job's output: says each record once, in the attempts' order.
class OutputReader {
 public:
  // A piece of the attempt, new or longer than before. Its news are taken by next().
  void add(const std::string& attempt, const OutputPiece& piece);

  struct Said {
    std::string attempt;
    OutputRecord record;
  };
  // What came since the last call.
  std::vector<Said> next();

 private:
  struct Attempt {
    std::map<std::uint64_t, std::vector<OutputRecord>> pieces;  // from `number` on
    std::uint64_t number = 0;
    std::size_t said = 0;  // records of that piece
  };
  std::map<std::string, Attempt> attempts_;
};

}  // namespace spotter::wire

// A body in chunks, as a server sends it that does not know its length yet (RFC 9112, 7.1).
// Private to agent/aws/s3.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "agent/aws/s3/intake.hpp"

namespace spotter::s3 {

class Chunks {
 public:
  enum class State : std::uint8_t { Open, Whole, Wrong };
  // `take` gets the content, piece by piece; false: no more is wanted, and it is Wrong. What comes
  // behind the end is left in `bytes`.
  State feed(std::string_view& bytes, const std::function<bool(std::string_view)>& take);

 private:
  bool read_line(std::string_view& bytes);

  enum class Part : std::uint8_t { Size, Content, Border, Trailer } part_ = Part::Size;
  std::uint64_t left_ = 0;  // of a chunk
  std::string line_;
};

// The bytes of one HTTP/1.1 answer, as they come from a connection. No I/O. Private to
// agent/aws/s3. Source: RFC 9112.
class Incoming {
 public:
  enum class State : std::uint8_t { Open, Whole, Wrong };

  void begin(Plan plan);
  State state() const { return state_; }
  const std::string& what_is_wrong() const { return wrong_; }
  bool is_silent() const { return part_ == Part::Head && head_.empty(); }
  bool has_head() const { return part_ != Part::Head; }
  bool is_last() const { return last_; }  // of its connection

  // REQUIRES of all three: state() is Open.
  void take(std::string_view bytes);
  void close();  // the server has closed the connection
  // The place for the next bytes, for a caller who can receive them there; empty: take() them.
  std::span<char> room() const;
  void put(std::size_t bytes);  // so many are there

  Taken end(CURLcode code, std::string message) { return intake_.end(code, std::move(message)); }

 private:
  void take_head();
  bool take_lines(std::string_view lines);
  void begin_body();
  void take_body(std::string_view bytes);
  void fail(std::string what);

  enum class Part : std::uint8_t { Head, Sized, Chunks, Rest };
  Intake intake_;
  bool bodiless_ = false;
  State state_ = State::Whole;
  std::string wrong_;
  Part part_ = Part::Head;
  std::string head_;
  bool last_ = false;
  std::uint64_t left_ = 0;  // of the body, when its length was said
  Chunks chunks_;
};

}  // namespace spotter::s3

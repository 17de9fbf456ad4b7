#include "agent/aws/s3/incoming.hpp"

#include <algorithm>
#include <charconv>
#include <utility>

namespace spotter::s3 {
namespace {

constexpr std::size_t longest_line = 8U << 10;

// Hexadecimal, and perhaps an extension behind it.
bool parse_size(std::string_view line, std::uint64_t& size) {
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), size, 16);
  const auto rest = line.substr(static_cast<std::size_t>(end - line.data()));
  return error == std::errc() && (rest.empty() || rest[0] == ';' || rest[0] == ' ');
}

}  // namespace

// True: line_ is one, without its end.
bool Chunks::read_line(std::string_view& bytes) {
  const auto end = bytes.find('\n');
  line_ += bytes.substr(0, end);
  bytes.remove_prefix(end == bytes.npos ? bytes.size() : end + 1);
  if (end == bytes.npos) return false;
  if (line_.ends_with('\r')) line_.pop_back();
  return true;
}

Chunks::State Chunks::feed(std::string_view& bytes,
                           const std::function<bool(std::string_view)>& take) {
  while (!bytes.empty()) {
    if (part_ == Part::Content) {
      const auto piece = bytes.substr(0, left_);
      bytes.remove_prefix(piece.size());
      left_ -= piece.size();
      if (!take(piece)) return State::Wrong;
      if (left_ == 0) part_ = Part::Border;
      continue;
    }
    if (!read_line(bytes)) return line_.size() > longest_line ? State::Wrong : State::Open;
    const std::string line = std::exchange(line_, {});
    if (part_ == Part::Border) {
      if (!line.empty()) return State::Wrong;
      part_ = Part::Size;
    } else if (part_ == Part::Trailer) {
      if (line.empty()) return State::Whole;
    } else {
      if (!parse_size(line, left_)) return State::Wrong;
      part_ = left_ == 0 ? Part::Trailer : Part::Content;
    }
  }
  return State::Open;
}

namespace {

constexpr std::size_t longest_head = 64U << 10;

bool says(std::string_view header, std::string_view word) {
  const auto same = [](char a, char b) { return (a >= 'A' && a <= 'Z' ? a - 'A' + 'a' : a) == b; };
  return std::search(header.begin(), header.end(), word.begin(), word.end(), same) != header.end();
}

}  // namespace

void Incoming::begin(Plan plan) {
  bodiless_ = plan.method == "HEAD";
  intake_.begin(std::move(plan));
  state_ = State::Open;
  part_ = Part::Head;
  head_.clear();
  last_ = false;
}

void Incoming::fail(std::string what) {
  state_ = State::Wrong;
  wrong_ = std::move(what);
}

void Incoming::take(std::string_view bytes) {
  if (part_ != Part::Head) return take_body(bytes);
  head_ += bytes;
  take_head();
}

// After a 1xx another one follows.
void Incoming::take_head() {
  while (state_ == State::Open && part_ == Part::Head) {
    const auto end = head_.find("\r\n\r\n");
    if (end == head_.npos) {
      if (head_.size() > longest_head) fail("its headers do not end");
      return;
    }
    const std::string head = std::exchange(head_, head_.substr(end + 4)).substr(0, end + 2);
    if (!take_lines(head)) return fail("its headers are not those of HTTP");
    if (intake_.answer().status / 100 == 1) continue;
    if (!intake_.take_header("")) return fail("it is not wanted");
    begin_body();
  }
  if (state_ == State::Whole) last_ = last_ || !head_.empty();
  if (state_ == State::Open && !head_.empty()) take_body(std::exchange(head_, {}));
}

bool Incoming::take_lines(std::string_view lines) {
  if (!lines.starts_with("HTTP/1.")) return false;
  last_ = lines.starts_with("HTTP/1.0");
  while (!lines.empty()) {
    const auto end = lines.find("\r\n");
    if (!intake_.take_header(lines.substr(0, end))) return false;
    lines.remove_prefix(end + 2);
  }
  return intake_.answer().status >= 100;
}

void Incoming::begin_body() {
  const Answer& answer = intake_.answer();
  if (says(answer.header("connection"), "close")) last_ = true;
  const auto length = answer.header("content-length");
  left_ = 0;
  if (bodiless_ || answer.status == 204 || answer.status == 304) {
    part_ = Part::Sized;  // what its length says is not sent
  } else if (says(answer.header("transfer-encoding"), "chunked")) {
    part_ = Part::Chunks;
    chunks_ = {};
  } else if (length.empty()) {
    part_ = Part::Rest;
    last_ = true;
  } else {
    part_ = Part::Sized;
    const auto bytes = wire::parse_count(length);
    if (!bytes) return fail("its length is no number");
    left_ = *bytes;
  }
  if (part_ == Part::Sized && left_ == 0) state_ = State::Whole;
}

std::span<char> Incoming::room() const {
  if (part_ != Part::Sized) return {};
  const auto room = intake_.room();
  return room.first(static_cast<std::size_t>(std::min<std::uint64_t>(room.size(), left_)));
}

void Incoming::put(std::size_t bytes) {
  intake_.put(bytes);
  left_ -= bytes;
  if (left_ == 0) state_ = State::Whole;
}

void Incoming::take_body(std::string_view bytes) {
  constexpr auto unwanted = "its body is not what was to come";
  if (part_ == Part::Chunks) {
    const auto state =
        chunks_.feed(bytes, [this](std::string_view piece) { return intake_.take_body(piece); });
    if (state == Chunks::State::Wrong) return fail(unwanted);
    if (state == Chunks::State::Whole) state_ = State::Whole;
  } else {
    const auto mine =
        part_ == Part::Sized
            ? bytes.substr(0,
                           static_cast<std::size_t>(std::min<std::uint64_t>(left_, bytes.size())))
            : bytes;
    bytes.remove_prefix(mine.size());
    if (!intake_.take_body(mine)) return fail(unwanted);
    if (part_ == Part::Sized && (left_ -= mine.size()) == 0) state_ = State::Whole;
  }
  // The server sent more than was asked for.
  if (state_ == State::Whole && !bytes.empty()) last_ = true;
}

void Incoming::close() {
  last_ = true;
  if (part_ == Part::Rest) {
    state_ = State::Whole;
  } else {
    fail("the connection was closed before its end");
  }
}

}  // namespace spotter::s3

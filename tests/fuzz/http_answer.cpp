// The answer to a read, as S3's client takes it from a connection: in one piece, or byte by byte,
// what comes of it is the same.
#include <algorithm>
#include <string>

#include "agent/aws/s3/carriers.hpp"
#include "tests/fuzz/fuzz.hpp"

namespace spotter::fuzz {
namespace {

using s3::Incoming;

struct Seen {
  Incoming::State state;
  int status;
  s3::Headers headers;
  std::string body;
  std::string into;
  std::size_t received;
  friend bool operator==(const Seen&, const Seen&) = default;
};

Seen see(std::string_view bytes, std::size_t step, std::size_t wanted, bool direct) {
  std::string into(wanted, '\0');
  Incoming incoming;
  incoming.begin({.method = "GET", .into = into});
  while (!bytes.empty() && incoming.state() == Incoming::State::Open) {
    const auto room = direct ? incoming.room() : std::span<char>();
    must(room.size() <= wanted, "there is no more room than was given");
    const auto piece = bytes.substr(0, room.empty() ? step : std::min(step, room.size()));
    if (room.empty()) {
      incoming.take(piece);
    } else {
      std::ranges::copy(piece, room.begin());
      incoming.put(piece.size());
    }
    bytes.remove_prefix(piece.size());
  }
  if (incoming.state() == Incoming::State::Open) incoming.close();
  const auto state = incoming.state();
  auto taken = incoming.end(CURLE_OK, {});
  must(taken.received <= wanted, "no more is written than is wanted");
  // The cuts decide how much of a wrong answer was taken.
  if (state == Incoming::State::Wrong) return {state, 0, {}, {}, {}, 0};
  return {state, taken.answer.status, taken.answer.headers, taken.answer.body,
          into,  taken.received};
}

}  // namespace

void examine(std::string_view bytes) {
  for (const std::size_t wanted : {0, 5, 4096}) {
    const Seen whole = see(bytes, bytes.size(), wanted, false);
    must(whole == see(bytes, 1, wanted, true), "byte by byte it is the same");
    must(whole == see(bytes, 7, wanted, true), "in pieces it is the same");
  }
}

}  // namespace spotter::fuzz

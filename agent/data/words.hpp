// What the data plane and the holder of its FIFOs say to one another, over a socket of whole
// messages (SOCK_SEQPACKET).
//
//   plane:  "made NAME" with the FIFO's write end; "ended NAME": its stream is over and verified;
//           "failed TEXT": no more data will come, and no end either
//   holder: "trainer PID": that process, and its session, must be gone before a FIFO closes; "bye":
//           it is. When the holder leaves without a word, it has died.
#pragma once

#include <optional>
#include <string>

#include "agent/data/fifo.hpp"

namespace spotter::data {

struct Word {
  std::string text;
  Descriptor file;  // what came with it, or goes with it
};

// False: the other side is gone.
bool say(int socket, const std::string& text, int file = -1);

// None: there is no word now, or (`gone`) the other side has left.
std::optional<Word> hear(int socket, bool& gone);

}  // namespace spotter::data

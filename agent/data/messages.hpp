// Messages between the data plane and the holder of its FIFOs, over a SOCK_SEQPACKET socket.
//
//   plane:  "made NAME" with the FIFO's write end; "ended NAME": its stream is complete and
//           verified; "failed TEXT": no more data will come, and no end of file either
//   holder: "trainer PID": that process and its session must have ended before a FIFO closes;
//           "bye": they have. A holder that leaves without "bye" has died.
#pragma once

#include <optional>
#include <string>

#include "agent/data/fifo.hpp"

namespace spotter::data {

struct Message {
  std::string text;
  Descriptor file;  // the descriptor sent with it
};

// False: the other side is gone.
bool send_message(int socket, const std::string& text, int file = -1);

// None: there is no message now, or (`gone`) the other side has left.
std::optional<Message> receive_message(int socket, bool& gone);

}  // namespace spotter::data

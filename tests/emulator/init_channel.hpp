// The emulator's end of the socket to an instance's init, once the instance runs.
#pragma once

#include <boost/asio/io_context.hpp>
#include <functional>
#include <memory>
#include <string>

#include "tests/emulator/frames.hpp"

namespace spotter::emulator {

class InitChannel {
 public:
  using Hear = std::function<void(const Words&)>;

  // Duplicates the socket. `hear` is called in the context's thread, never after this has gone.
  InitChannel(boost::asio::io_context& context, int socket, Hear hear);
  ~InitChannel();
  InitChannel(const InitChannel&) = delete;
  InitChannel& operator=(const InitChannel&) = delete;

  void send(const Words& words);  // to one that is gone: nothing

 private:
  struct Reader;
  std::shared_ptr<Reader> reader_;
};

}  // namespace spotter::emulator

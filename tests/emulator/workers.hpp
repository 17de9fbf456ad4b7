// Threads for connections that carry much: each connection is a strand of its own.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/io_context.hpp>
#include <thread>
#include <vector>

namespace spotter::emulator {

class Workers {
 public:
  Workers() = default;
  ~Workers() { stop(); }
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  void start(unsigned threads);
  // Returns when no thread of it runs any more; what was under way stays where it is.
  void stop();
  boost::asio::any_io_executor strand();

 private:
  boost::asio::io_context context_;
  std::vector<std::thread> threads_;
};

}  // namespace spotter::emulator

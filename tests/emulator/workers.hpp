// Threads for connections that carry much. Each has a context of its own: connections that share
// one wait for one another only, and no lock is taken for any of them.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/io_context.hpp>
#include <list>
#include <thread>
#include <vector>

namespace spotter::emulator {

class Workers {
 public:
  explicit Workers(unsigned threads);
  ~Workers() { stop(); }
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  void start();
  // Returns when no thread of it runs any more; what was under way stays where it is.
  void stop();
  boost::asio::any_io_executor next();  // in turn

 private:
  std::list<boost::asio::io_context> contexts_;
  std::list<boost::asio::io_context>::iterator turn_;
  std::vector<std::thread> threads_;
};

}  // namespace spotter::emulator

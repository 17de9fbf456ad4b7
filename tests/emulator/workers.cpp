#include "tests/emulator/workers.hpp"

#include <csignal>

#include "tests/emulator/precompiled.hpp"

namespace spotter::emulator {

void Workers::start(unsigned threads) {
  // Signals are for the thread that waits for children.
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  for (unsigned i = 0; i < threads; ++i)
    threads_.emplace_back([this] {
      const auto work = boost::asio::make_work_guard(context_);
      context_.run();
    });
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void Workers::stop() {
  context_.stop();
  for (auto& thread : threads_) thread.join();
  threads_.clear();
}

boost::asio::any_io_executor Workers::strand() { return boost::asio::make_strand(context_); }

}  // namespace spotter::emulator

#include "tests/emulator/workers.hpp"

#include <csignal>

#include "tests/emulator/precompiled.hpp"

namespace spotter::emulator {

Workers::Workers(unsigned threads) {
  for (unsigned i = 0; i < threads; ++i) contexts_.emplace_back(1);
  turn_ = contexts_.begin();
}

void Workers::start() {
  // Signals are for the thread that waits for children.
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  for (auto& context : contexts_)
    threads_.emplace_back([&context] {
      const auto work = boost::asio::make_work_guard(context);
      context.run();
    });
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void Workers::stop() {
  for (auto& context : contexts_) context.stop();
  for (auto& thread : threads_) thread.join();
  threads_.clear();
}

boost::asio::any_io_executor Workers::next() {
  if (++turn_ == contexts_.end()) turn_ = contexts_.begin();
  return turn_->get_executor();
}

}  // namespace spotter::emulator

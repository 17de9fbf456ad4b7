// The background thread of an object, in a process that may fork, as data loaders do.
#pragma once

#include <unistd.h>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

namespace spotter::checkpoint {

class OwnThread {
 public:
  // To be called last in the owner's constructor: `work` may use all of the owner.
  template <class Work>
  void begin(Work work) {
    thread_ = std::thread(std::move(work));
  }

  // A forked child inherits the owner without its thread, and perhaps a locked mutex.
  bool inherited() const { return process_ != ::getpid(); }

  // `work` and its callers wait on it, with the owner's mutex.
  std::condition_variable& changed() { return *changed_; }

  // To be called in the owner's destructor. `say`, called under `mutex`, makes `work` return.
  template <class Say>
  void end(std::mutex& mutex, Say say) {
    if (inherited()) {
      thread_.detach();
      (void)changed_.release();
      return;
    }
    {
      const std::scoped_lock lock(mutex);
      say();
    }
    changed_->notify_all();
    thread_.join();
  }

 private:
  const pid_t process_ = ::getpid();
  // On the heap, so that a forked child need not destroy it: glibc would wait there for the
  // parent's waiting thread.
  std::unique_ptr<std::condition_variable> changed_ = std::make_unique<std::condition_variable>();
  std::thread thread_;
};

}  // namespace spotter::checkpoint

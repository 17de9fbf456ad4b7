// The thread of an object that works behind its caller's back, and that a trainer may fork: loaders
// of data do.
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
  // Last in the owner's constructor: `work` may use all of it.
  template <class Work>
  void begin(Work work) {
    thread_ = std::thread(std::move(work));
  }

  // A forked child has the owner, but not its thread, and perhaps a mutex that nobody unlocks.
  bool inherited() const { return process_ != ::getpid(); }

  // What `work` and its callers wait on, under the owner's mutex.
  std::condition_variable& changed() { return *changed_; }

  // In the owner's destructor. `say`, under `mutex`, is what lets `work` return.
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
  // On the heap, as a forked child must not destroy it: glibc would wait there for the thread that
  // waits in the parent.
  std::unique_ptr<std::condition_variable> changed_ = std::make_unique<std::condition_variable>();
  std::thread thread_;
};

}  // namespace spotter::checkpoint

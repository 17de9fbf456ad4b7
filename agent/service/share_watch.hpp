// Asks a share's server now and then whether it is there, in a process of its own: whoever else
// waits for a dead server only finds out at a deadline, and cannot say what hangs.
#pragma once

#include <functional>
#include <string>

#include "agent/io/asio.hpp"
#include "agent/job/job.hpp"

namespace spotter {

class ShareWatch {
 public:
  struct Hands {
    std::function<bool()> wanted;          // is the share in use?
    std::function<void(bool)> hanging;     // told at each change
    std::function<void(std::string)> say;  // what hangs or fails and since when; empty: all is well
  };
  struct Share {
    std::string home;   // the job's folder on it
    std::string mount;  // where nothing is asked while nothing is mounted; empty: always
    std::string place;  // for a person
  };
  // Of a job that has its storage on a share.
  static Share share_of(const config::Job& job);
  // `program`: the spotter binary.
  ShareWatch(asio::io_context& context, std::string program, Share share, Hands hands);

  // Asks each `kEvery`, until the io_context ends. There is one question at a time: one that hangs
  // in the kernel is waited for, and its answer is the server's return.
  asio::awaitable<void> watch();

  static constexpr Duration kEvery{10'000};
  static constexpr Duration kPatience{10'000};

 private:
  asio::awaitable<void> ask();
  void said(const std::string& words);

  std::string program_;
  Share share_;
  Hands hands_;
  asio::steady_timer pause_;
  asio::steady_timer patience_;
  std::string last_;
  bool hanging_ = false;
};

}  // namespace spotter

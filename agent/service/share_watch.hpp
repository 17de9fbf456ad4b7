// Checks now and then whether a share's server answers, in a process of its own: any other process
// would hang with a dead server until a deadline, and could not say why.
#pragma once

#include <functional>
#include <string>

#include "agent/io/asio.hpp"
#include "agent/job/job.hpp"

namespace spotter {

class ShareWatch {
 public:
  struct Callbacks {
    std::function<bool()> wanted;          // is the share in use?
    std::function<void(bool)> hanging;     // called at each change
    std::function<void(std::string)> say;  // what hangs or fails, since when; empty: nothing
  };
  struct Share {
    std::string home;   // the job's folder on the share
    std::string mount;  // if nothing is mounted there it does not check; empty: it always checks
    std::string place;  // for a person
  };
  // REQUIRES: the job's storage is a share.
  static Share share_of(const config::Job& job);
  // `program`: the spotter binary.
  ShareWatch(asio::io_context& context, std::string program, Share share, Callbacks callbacks);

  // Checks every `kEvery`, until the io_context ends. One check at a time: a check that hangs in
  // the kernel is waited for, and its end shows that the server is back.
  asio::awaitable<void> watch();

  static constexpr Duration kEvery{10'000};
  static constexpr Duration kPatience{10'000};

 private:
  asio::awaitable<void> ask();
  void said(const std::string& words);

  std::string program_;
  Share share_;
  Callbacks callbacks_;
  asio::steady_timer pause_;
  asio::steady_timer patience_;
  std::string last_;
  bool hanging_ = false;
};

}  // namespace spotter

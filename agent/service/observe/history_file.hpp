// The history of this machine for one job, in SPOTTER_RUN/history.jsonl: what an agent that is
// started again goes on with, what is not on the storage yet, and what is published. So the agent
// itself remembers none of it, but what the disk did not take.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "agent/supervise/run_directory.hpp"
#include "agent/wire/history.hpp"

namespace spotter {

class HistoryFile {
 public:
  explicit HistoryFile(const std::string& run_directory);

  // Goes on with what an earlier agent of this boot has told of the same job: its last moments,
  // the newest last. Else it begins anew, with `began`: nothing. What was there, which may be a
  // file that cannot be read, is then history.jsonl.old.
  std::vector<wire::Moment> open(const wire::Moment& began);
  // REQUIRES: open() was called. About a MiB stays; the oldest moments but the first go before.
  // Whatever fails, the file has whole lines, and what it lacks comes with the next moment: of a
  // disk that stays full 64 KiB of them.
  void append(const wire::Moment& moment);

  // Lines that are not on the storage yet, the oldest first: some at a time, empty when none is.
  std::string news() const;
  void kept(std::size_t bytes);  // so many of them are there now

  // What these moments are called in S3: "<began, in ms since 1970>-<instance>". Empty before
  // open().
  const std::string& segment() const { return segment_; }
  std::size_t size() const { return size_; }

 private:
  bool goes_on(const wire::Moment& began);
  bool begin_file();
  bool append_to_file();
  bool remember_kept(std::size_t bytes) const;
  void drop_oldest();

  supervise::RunDirectory directory_;
  std::string path_, kept_path_;
  std::string segment_;
  std::string unwritten_;  // lines
  bool begun_ = false;     // the file is this agent's
  std::size_t size_ = 0, kept_ = 0;
};

}  // namespace spotter

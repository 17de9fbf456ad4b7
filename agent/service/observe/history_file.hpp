// This machine's history of one job, in SPOTTER_RUN/history.jsonl: what a restarted agent
// continues, what is not on the storage yet, and what is published. So the agent keeps in memory
// only what could not be written.
#pragma once

#include "agent/supervise/run_directory.hpp"
#include "agent/wire/history.hpp"

namespace spotter {

class HistoryFile {
 public:
  explicit HistoryFile(const std::string& run_directory);

  // Continues the file of an earlier agent of this boot and job, and returns its last entries, the
  // newest last. Otherwise begins a new file with `began`, and returns none; the old file, which
  // may be unreadable, becomes history.jsonl.old.
  std::vector<wire::HistoryEntry> open(const wire::HistoryEntry& began);
  // REQUIRES: open() was called. Keeps about 1 MiB; drops the oldest entries except the first.
  // After a failure the file still has whole lines, and the missing ones are written with the next
  // entry; while the disk is full 64 KiB of them are kept.
  void append(const wire::HistoryEntry& entry);

  // The oldest lines that are not on the storage yet, a part at a time; empty: none.
  std::string news() const;
  void kept(std::size_t bytes);  // so many bytes are on the storage now

  // The name of these entries in S3: "<began, in ms since 1970>-<instance>". Empty before open().
  const std::string& segment() const { return segment_; }
  std::size_t size() const { return size_; }

 private:
  bool goes_on(const wire::HistoryEntry& began);
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

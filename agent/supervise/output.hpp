// Brings what the trainer prints from its log into pieces in the run directory, which an agent puts
// into S3 (wire/output.hpp). The log is the trainer's to write, so all that is done with it is to
// read some bytes of an open file now and then, and what comes out is bounded in size and in rate.
#pragma once

#include "agent/supervise/run_directory.hpp"
#include "agent/wire/output.hpp"

namespace spotter::supervise {

inline constexpr const char* output_name = "output";  // the folder in the run directory
// How many bytes of the log were taken: those behind must stay there (host/records.cpp).
inline constexpr const char* taken_name = "output-taken";
// None: the file is not there.
std::optional<std::uint64_t> taken(const std::string& run_directory);

class Output {
 public:
  // `directory`: the run directory. `secrets`: values, which no piece has.
  Output(const std::string& directory, std::string job, const std::vector<std::string>& secrets);

  // An attempt begins, whose output is behind `offset` in the log. Removes old attempts' pieces. On
  // failure none are made.
  Result<void> begin(int log, std::int64_t offset);
  // Milliseconds until look() has something to do; -1: never.
  int milliseconds_left(std::int64_t now) const;
  // Takes what is new in the log, once a second at most. `now`: of the boot clock.
  void look(std::int64_t now);
  // Nothing is printed any more: takes the rest, and says how it ended.
  void end(const std::string& how);

 private:
  void take(std::int64_t most);
  void leave_out(std::int64_t bytes);
  void write();

  RunDirectory run_;
  std::string directory_, attempt_;
  wire::Mask mask_;
  wire::TerminalLines lines_;
  wire::OutputPieces pieces_;
  int log_ = -1;  // open for the whole attempt
  std::int64_t at_ = 0, written_ = 0;
  std::int64_t looked_ = 0;
  std::int64_t allowance_ = 0;  // bytes that may still be taken
};

}  // namespace spotter::supervise

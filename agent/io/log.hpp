// Sends log lines under systemd to the journal, with fields that journalctl can search by;
// elsewhere to stderr with the time. Lines are written by spdlog's functions or by note().
#pragma once

#include <spdlog/common.h>
#include <spdlog/fmt/fmt.h>

#include <chrono>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "agent/base/result.hpp"

namespace spotter::io {

// Once, before the first line.
void set_up_log();
// Used by a command: its answer is on standard output, so its lines go to stderr, from any thread.
void log_to_stderr();

// The lines since the last call, for whoever keeps them elsewhere, too: with the time in UTC and
// the instance, one a line. Some hundred KiB at most: the oldest go first, and a line says so.
std::string take_log();
// They could not be kept: they stand before what was said since.
void put_log_back(std::string lines);

// The last few warnings and errors, the newest last.
struct Problem {
  std::chrono::milliseconds at;  // boot clock
  std::string event;             // the kind's name, if it has one
  std::string words;
  bool error = false;  // else a warning
};
const std::vector<Problem>& recent_problems();

// A field of each line from now on, as INSTANCE_ID: upper case letters, digits, underscores. An
// empty value: not any more.
void set_log_field(const std::string& name, std::string_view value);

// A line of a kind that the journal's catalog explains: `name` becomes SPOTTER_EVENT, `id`
// MESSAGE_ID. A kind that comes thick and fast is thinned out in the journal, and the next line of
// it says how many were left out.
void note_line(std::string_view name, std::string_view id, spdlog::level::level_enum level,
               const std::string& words);

// `kind` has such a name and id (wire/events.hpp).
template <class Kind, class... Values>
void note(const Kind& kind, spdlog::level::level_enum level,
          spdlog::format_string_t<Values...> text, Values&&... values) {
  note_line(kind.name, kind.id, level,
            spdlog::fmt_lib::format(text, std::forward<Values>(values)...));
}

// Messages of a command to the person who ran it, beside what it was asked for.

// "spotter COMMAND: WHAT" as a line on the standard error. Returns the exit status that it is
// given.
int complain(const char* command, const std::string& what, int status = 1);
// The exit status of a command that has ended; the words of its failure, if it has some, are such a
// line.
int ended(const char* command, const Result<int>& end);

}  // namespace spotter::io

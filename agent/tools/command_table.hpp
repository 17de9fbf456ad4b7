// Derives shell completions (scripts/packaging/completion) and the manual
// (scripts/packaging/manual) from the program's own table of commands.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace spotter {

// The words that may follow `words`, one a line. `words`: the command line without the program and
// the word being typed. Empty: a file, or unknown (after `--`).
std::string completions(const CLI::App& app, const std::vector<std::string>& words);

// What to tell a person one of whose `words` stands where a command must be, and is none; empty:
// there is no such word. `words`: the command line without the program.
std::string wrong_command(const CLI::App& app, const std::vector<std::string>& words);

// All kinds of journal events, as subsections of mdoc(7).
std::string manual_of_events();

// All commands with their options, as subsections of mdoc(7).
std::string manual_of_commands(const CLI::App& app);

}  // namespace spotter

// `spotter explain NAME`: what a kind of journal event means, and what to do about it.

namespace spotter::command {

void add_explain(CLI::App& app, int& status);

}  // namespace spotter::command

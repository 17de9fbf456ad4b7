// The commands of `spotter`: each adds itself, with its options, to the program's table, and sets
// the exit status once it has run.
#pragma once

#include <functional>

#include "agent/base/text.hpp"
#include "agent/config/job.hpp"

namespace CLI {
class App;
}

namespace spotter::command {

void add_checkpoints(CLI::App& app, int& status);
void add_doctor(CLI::App& app, int& status);
void add_explain(CLI::App& app, int& status);
void add_fetch(CLI::App& app, int& status);
void add_help(CLI::App& app, int& status);
void add_iam(CLI::App& app, int& status);
void add_init(CLI::App& app, int& status);
void add_setup(CLI::App& app, int& status);
void add_delete(CLI::App& app, int& status);
// The bucket that this user has set up last; empty: none.
std::string bucket_of_setup();
void add_launch(CLI::App& app, int& status);
void add_list(CLI::App& app, int& status);
void add_logs(CLI::App& app, int& status);
void add_plan(CLI::App& app, int& status);
void add_report(CLI::App& app, int& status);
void add_shell(CLI::App& app, int& status);
void add_status(CLI::App& app, int& status);
void add_stop(CLI::App& app, int& status);
void add_sweep(CLI::App& app, int& status);
void add_wait(CLI::App& app, int& status);
void add_watch(CLI::App& app, int& status);

// The exit status of a command that the service, the agent itself or its supervisor runs; none: it
// is another one. In the client's build also of those that only a machine has: it says so.
std::optional<int> machines_own(int argc, char** argv);

// `fill_here` fills the existing volume, and returns the agent's exit status
// (agent/service/agent.hpp).
void add_prepare(CLI::App& app, std::function<int(config::Job)> fill_here, int& status);

// The words that may follow `words`, one a line. `words`: the command line without the program and
// the word being typed. Empty: a file, or unknown (after `--`). Used by the shell's completion
// (scripts/packaging/completion).
std::string completions(const CLI::App& app, const std::vector<std::string>& words);

// Tells a person which of `words` stands where a command must be, and is none; empty: there is no
// such word. `words`: the command line without the program.
std::string wrong_command(const CLI::App& app, const std::vector<std::string>& words);

// All commands with their options, and all kinds of journal events: JSON, of which the build makes
// pages (scripts/packaging/manual/render_program.py).
std::string manual_of(const CLI::App& app);

// The job for this process, by its file; its mistakes are printed, a line each.
Result<config::Job> job_here(const std::string& file);

// The size of the terminal that the standard output is, or what is usual.
struct Window {
  std::size_t rows = 1000, columns = 80;
};
Window window();

// Asks a person at the terminal; without one, nobody agrees.
bool agrees(const char* question);

}  // namespace spotter::command

// The client's build (CMake: SPOTTER_CLIENT), for the machine from which a person launches: what it
// has in the place of machine.cpp.
#include <CLI/CLI.hpp>
#include <algorithm>

#include "agent/commands/commands.hpp"
#include "agent/commands/doctor.hpp"
#include "agent/commands/machine/machine.hpp"
#include "agent/io/log.hpp"
#include "agent/service/agent.hpp"

namespace spotter {
namespace {

constexpr const char* not_here =
    "only a machine that trains has this: it is not in the client's build";

}  // namespace

int fill(config::Job /*job*/) { return io::complain("prepare", not_here, wrong_input); }

void add_agent(CLI::App& /*app*/, int& /*status*/) {}
void add_run(CLI::App& /*app*/, int& /*status*/) {}

}  // namespace spotter

namespace spotter::command {

std::optional<int> machines_own(int argc, char** argv) {
  constexpr std::string_view names[] = {"agent",  "checkpoints", "follow-log", "gang",    "guard",
                                        "host",   "metadata",    "pipe",       "publish", "run",
                                        "set-up", "supervise",   "tier",       "unit",    "views"};
  if (argc < 2 || std::ranges::find(names, argv[1]) == std::end(names)) return std::nullopt;
  return io::complain(argv[1], not_here, wrong_input);
}

void add_checkpoints(CLI::App& /*app*/, int& /*status*/) {}
void add_pipe(CLI::App& /*app*/, int& /*status*/) {}

Findings examine_machine(const config::Job& /*job*/) { return {}; }
Findings examine_shared_memory() { return {}; }
Findings examine_checkpoints(const config::Job& /*job*/) { return {}; }

Findings examine_repository(AwsCalls& /*calls*/, const config::Code& code, bool /*on_instance*/) {
  return {{"code", Finding::Verdict::Warn,
           code.repository + " at " + code.revision.substr(0, 12) + " was not fetched",
           "the client's build does not try; the instances will"}};
}

}  // namespace spotter::command

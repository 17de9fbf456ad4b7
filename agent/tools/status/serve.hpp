// `spotter status --serve`: the live page of a job, for a browser of this machine.
#pragma once

#include <cstdint>

#include "agent/tools/report/report_sources.hpp"

namespace CLI {
class App;
}

namespace spotter::command {

struct ServeOptions {
  bool wanted = false;
  std::uint16_t port = 0;
  JobToShow shown;
};

void add_serve_options(CLI::App& status, ServeOptions& options);
int serve(const ServeOptions& options);  // the exit status

}  // namespace spotter::command

#include "agent/tools/machine/follow_log.hpp"

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "agent/follow/follower.hpp"

namespace spotter::command {

int follow_log(int argc, char** argv) {
  CLI::App app("Reports the metrics in the log of a trainer that knows nothing of Spotter",
               "spotter follow-log");
  follow::Options options;
  std::string home, csv, json_lines;
  std::vector<std::string> columns;
  std::int64_t missing_after = options.missing_after.count();
  app.add_option("--home", home, "where the paths begin")->required();
  auto* which = app.add_option_group("which", "one of the two");
  which->add_option("--csv", csv, "a path or a pattern of paths");
  which->add_option("--json-lines", json_lines, "the same");
  which->require_option(1);
  app.add_option("--column", columns, "OURS=ITS; may be repeated")->allow_extra_args(false);
  app.add_option("--wanted", options.wanted, "our name of a metric that is taken in any case");
  app.add_option("--socket", options.socket, "the agent's, for datagrams")->required();
  app.add_option("--missing-after", missing_after, "milliseconds until a missing file is reported");
  app.add_flag("--again", options.again, "the trainer runs already");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  options.kind = csv.empty() ? wire::LogKind::JsonLines : wire::LogKind::Csv;
  options.name = csv.empty() ? json_lines : csv;
  options.file = home + "/" + options.name;
  options.curve = home + "/metrics.jsonl";
  options.missing_after = std::chrono::milliseconds(missing_after);
  for (const std::string& each : columns) {
    const auto equals = each.find('=');
    if (equals != each.npos) options.columns[each.substr(0, equals)] = each.substr(equals + 1);
  }
  return follow::run(options);
}

}  // namespace spotter::command

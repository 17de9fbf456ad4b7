#include "agent/commands/commands.hpp"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <memory>

#include "agent/commands/report_sources.hpp"
#include "agent/io/files.hpp"
#include "agent/io/log.hpp"
#include "agent/report/page/page.hpp"

namespace spotter::command {
namespace {

struct ReportOptions {
  JobToShow shown;
  std::string output;
  bool json = false, no_prices = false;
  std::optional<double> on_demand;
};

// The job's name becomes a file's: without characters that lead to another folder.
std::string usual_output(const std::string& job, const ReportOptions& options) {
  std::string name = "spotter-report-";
  for (const char each : job)
    name +=
        std::isalnum(static_cast<unsigned char>(each)) || each == '-' || each == '.' ? each : '_';
  return name + (options.json ? ".json" : ".html");
}

tl::unexpected<Error> cannot_write(const std::string& where, const std::string& why) {
  return failure("cannot write " + where + ": " + why + "; name another file with --output");
}

// Replaces the file only as a whole: after a failure the old one stays.
Result<int> write(const std::string& path, const std::string& text, bool prints) {
  std::error_code error;
  const auto kind = fs::status(path, error).type();
  using fs::file_type;
  const bool replace = kind == file_type::regular || kind == file_type::not_found;
  if (path == "-") {
    std::fwrite(text.data(), 1, text.size(), stdout);
    if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0)
      return cannot_write("to the standard output", std::strerror(errno));
  } else if (replace) {
    if (const auto done = io::replace_file(path, text); !done)
      return cannot_write(path, done.error().message());
  } else if (std::ofstream file(path); !file.write(text.data(), std::ssize(text)).flush()) {
    return cannot_write(path, std::strerror(errno));
  }
  if (prints) std::printf("%s\n", path.c_str());
  return 0;
}

Result<int> report(const ReportOptions& options) {
  const auto place = TRY(of_input(place_of(options.shown)));
  std::vector<std::string> warnings;
  auto input = TRY(read_input(place, &warnings));
  for (const std::string& warning : warnings) io::complain("report", warning, 0);
  if (options.no_prices)
    input.prices.on_demand_of_all = options.on_demand;
  else
    input.prices = prices_of(input, options.on_demand);
  const auto model = report::build(input);
  const bool nothing =
      model.instances.empty() && model.curve.points().empty() && input.experiments.empty();
  if (nothing && !warnings.empty()) return 1;
  if (nothing && model.foreign > 0)
    return failure("of the history of " + model.job + " nothing can be read: " +
                   std::to_string(model.foreign) + " lines are not Spotter's");
  if (nothing) return failure("the history of " + model.job + " is empty: nothing has run yet");
  // JSON goes to the terminal, a page to a file.
  const bool to_stdout = options.output.empty() && options.json;
  const std::string output = to_stdout                ? "-"
                             : options.output.empty() ? usual_output(model.job, options)
                                                      : options.output;
  if (options.json) return write(output, to_text(model) + "\n", output != "-");
  return write(output, page::document(to_text(model)), output != "-");
}

}  // namespace

void add_report(CLI::App& app, int& status) {
  auto options = std::make_shared<ReportOptions>();
  auto* command = app.add_subcommand(
      "report",
      "The result of a job: time line, learning curve, cost, interruptions and what they "
      "repeated, as one HTML file");
  command->add_option("--job", options->shown.job,
                      "The job's description, or its name; else job.yaml here, or the service's");
  auto* from =
      command->add_option("--from", options->shown.from,
                          "Where its history is: a folder, as its storage is mounted, or "
                          "s3://bucket/prefix/NAME; else the job's own storage, or where it is "
                          "published");
  command
      ->add_option("--publish", options->shown.publish,
                   "The place in S3 that the job's description has as publish: its history is "
                   "read from there")
      ->excludes(from);
  command->add_option("--output", options->output,
                      "Writes there; -: here; else spotter-report-NAME.html in this folder");
  command->add_flag("--json", options->json, "The figures as JSON, here");
  command
      ->add_option("--on-demand", options->on_demand,
                   "A machine's on-demand price, in dollars an hour; else AWS's price list "
                   "is asked")
      ->check(CLI::Validator(
          [](const std::string& text) {
            double price = 0;
            const bool good = CLI::detail::lexical_cast(text, price) && price > 0 && price < 1e6;
            return good ? "" : "a price in dollars an hour, such as 1.21";
          },
          "DOLLARS"));
  command->add_flag("--no-prices", options->no_prices,
                    "Asks AWS for no prices, and uses those that the machines recorded");
  command->callback([options, &status] { status = io::ended("report", report(*options)); });
}

}  // namespace spotter::command

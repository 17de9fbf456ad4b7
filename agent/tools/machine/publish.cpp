#include "agent/tools/machine/publish.hpp"

#include <fcntl.h>
#include <sys/file.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <iostream>
#include <iterator>
#include <optional>
#include <string>

#include "agent/aws/s3/objects.hpp"
#include "agent/host/records.hpp"
#include "agent/io/files.hpp"
#include "agent/supervise/run_directory.hpp"

namespace spotter::command {
namespace {

constexpr std::size_t largest = 4U << 20;  // of a history, and a status

struct PublishOptions {
  std::string to, from, name;
  std::optional<std::uint64_t> resumed;
  bool history = false, status = false;
  int patience = 20'000;  // ms
};

int give_up(const std::string& words) {
  std::fprintf(stderr, "%s\n", words.c_str());
  return 1;
}

// Uploads the file, if it exists.
std::optional<std::string> put(s3::Client& client, const std::string& file,
                               const wire::S3Location& to, std::size_t most = largest) {
  const auto bytes = io::read_file(file, most);
  if (!bytes && bytes.error() == std::errc::no_such_file_or_directory) return std::nullopt;
  if (!bytes) return "cannot read " + file + ": " + bytes.error().message();
  const auto written = s3::put(client, to, *bytes);
  if (!written) return written.error().text();
  return std::nullopt;
}

// The status last, as it refers to the others.
int write(const PublishOptions& options) {
  const auto place = wire::parse_s3_url(options.to);
  if (!place) return give_up(place.error().message);
  s3::Client client({.environment = act::Environment::of_this_process(),
                     .patience = std::chrono::milliseconds(options.patience)});
  const auto below = [&](const std::string& key) {
    return wire::S3Location{place->bucket, place->key + key};
  };
  // An earlier child may still be writing: its data are older.
  const int lock =
      ::open((options.from + "/publish.lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (lock < 0 || ::flock(lock, LOCK_EX) != 0)
    return give_up("cannot lock " + options.from + "/publish.lock");
  // A curve that cannot be kept must not make the status look as if the agent were gone.
  int outcome = 0;
  const std::string curve = options.from + "/curve.jsonl";
  const std::string news{std::istreambuf_iterator<char>(std::cin), {}};
  if (!news.empty() || options.resumed) {
    const auto kept =
        act::host::keep_metrics(curve, news, options.resumed, supervise::private_mode);
    const auto wrong = !kept ? std::optional(kept.error().message)
                             : put(client, curve, below("metrics/" + options.name + ".jsonl"),
                                   act::host::metrics_limit);
    if (wrong) outcome = give_up(*wrong);
  }
  if (options.history) {
    const auto to = below("history/" + options.name + ".jsonl");
    if (const auto wrong = put(client, options.from + "/history.jsonl", to)) return give_up(*wrong);
  }
  if (!options.status) return outcome;
  const auto wrong = put(client, options.from + "/status.json", below("status.json"));
  return wrong ? give_up(*wrong) : outcome;
}

}  // namespace

int publish(int argc, char** argv) {
  PublishOptions options;
  CLI::App app("Writes what the agent has to tell to S3, once", "spotter publish");
  app.add_option("--to", options.to, "s3://bucket/prefix/NAME/")->required();
  app.add_option("--from", options.from, "the agent's directory")->required();
  app.add_option("--name", options.name, "of this agent's history")->required();
  app.add_option("--resumed", options.resumed, "the step from which the trainer resumed");
  app.add_flag("--history", options.history, "it has grown");
  app.add_flag("--status", options.status, "it is the job's");
  app.add_option("--patience", options.patience, "for each call, in ms");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  return write(options);
}

}  // namespace spotter::command

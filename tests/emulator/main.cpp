// spotter-emulator: IMDS, EC2, S3 and AWS Batch on this machine. Exit status: 0 done, 1 it failed,
// 2 misused.
#include <openssl/rand.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/emulator/client.hpp"
#include "tests/emulator/directory.hpp"
#include "tests/emulator/duration.hpp"
#include "tests/emulator/emulator.hpp"
#include "tests/emulator/init.hpp"
#include "tests/emulator/market.hpp"
#include "tests/world/auto_scaling.hpp"
#include "tests/world/batch/members.hpp"
#include "tests/world/ec2_members.hpp"
#include "tests/world/s3/digest.hpp"
#include "tests/world/s3/members.hpp"
#include "tests/world/service_members.hpp"

namespace spotter::emulator {
namespace {

using nlohmann::json;

int complain(const std::string& message, int status = 1) {
  std::fprintf(stderr, "spotter-emulator: %s\n", message.c_str());
  return status;
}

constexpr const char* fixed_secret = "emulator-secret";
constexpr const char* access_key = "AKIAEMULATOR00000000";

struct Arguments {
  std::string api;
  ServeOptions serve;
  std::string serve_api = "127.0.0.1:4566";
  std::string serve_metadata = "127.0.0.1:1338";
  std::string instances = "process";
  ContainerSettings containers;
  std::string mode = "auto";
  std::string zone;
  std::string type = "p3.2xlarge";
  std::string instance;
  std::string lead;
  std::string action = "terminate";
  std::vector<std::string> fault;
  std::string who;
  std::vector<std::string> policies;
  MarketOptions market;
  bool as_json = false;
  bool fixed_keys = false;
  bool even_as_root = false;
  std::string directory;
  bool list = false;
  std::string kind, reservation, begins, ends;
  int instances_left = 0, reserved = 1;
  bool in_metadata = false;
};

// Whoever has the keys runs programs here, as whoever serves.
Result<std::string> choose_secret(const Arguments& arguments) {
  if (arguments.fixed_keys && ::geteuid() == 0 && !arguments.even_as_root)
    return failure(
        "--fixed-keys as root: everybody on this machine knows them and could run programs as "
        "root; leave it out, or say --even-as-root, too");
  if (arguments.fixed_keys) return fixed_secret;
  // Chosen by whoever starts it, for this process and what it starts.
  const char* id = std::getenv("AWS_ACCESS_KEY_ID");
  const char* secret = std::getenv("AWS_SECRET_ACCESS_KEY");
  if (id != nullptr && std::string_view(id) == access_key && secret != nullptr && *secret != 0) {
    if (std::string_view(secret) == fixed_secret && ::geteuid() == 0)
      std::cerr << "spotter-emulator: AWS_SECRET_ACCESS_KEY is what everybody knows: whoever is on "
                   "this machine may run programs as root while this serves\n";
    return secret;
  }
  std::array<unsigned char, 20> bytes{};
  if (::RAND_bytes(bytes.data(), bytes.size()) != 1)
    return failure("no random bytes are to be had for the keys");
  return "emulator-" +
         world::s3::hexadecimal({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

int serve(Arguments& arguments) {
  static const std::map<std::string, Mode> modes = {
      {"auto", Mode::Automatic}, {"root", Mode::Root}, {"user", Mode::User}};
  auto& options = arguments.serve;
  const auto api = parse_endpoint(arguments.serve_api);
  if (!api) return complain("--api: " + api.error().message, 2);
  const auto metadata = parse_endpoint(arguments.serve_metadata);
  if (!metadata) return complain("--metadata: " + metadata.error().message, 2);
  options.api = *api;
  options.metadata = *metadata;
  options.mode = modes.at(arguments.mode);
  if (arguments.instances == "container") {
    options.containers = arguments.containers;
    options.containers->environment = options.environment;
    options.containers->binds = options.binds;
  }
  if (arguments.instances == "machine" && options.boot.empty())
    return complain("--instances machine needs --boot: what boots one (tests/machine/boot.py)", 2);
  if (arguments.instances != "machine") options.boot.clear();
  const auto secret = choose_secret(arguments);
  if (!secret) return complain(secret.error().message, 2);
  options.secret = *secret;
  options.version = SPOTTER_VERSION;
  if (options.directory.empty()) options.directory = default_directory();
  if (options.directory.empty()) return complain("--directory is needed where HOME is not set", 2);
  auto emulator = Emulator::create(options);
  if (!emulator) return complain(emulator.error().message);
  const std::string log = (options.directory / "emulator.log").string();
  spdlog::set_default_logger(spdlog::basic_logger_mt("emulator", log));
  spdlog::flush_on(spdlog::level::info);
  if (!(*emulator)->warning().empty())
    std::fprintf(stderr, "spotter-emulator: %s\n", (*emulator)->warning().c_str());
  const auto served = (*emulator)->run();
  return served ? 0 : complain(served.error().message);
}

// Prints what `print` makes of the answer.
template <class Print>
int ask(const Arguments& arguments, const std::string& what, const std::optional<json>& body,
        Print print) {
  const auto client = Client::find(arguments.api);
  if (!client) return complain(client.error().message, 2);
  const auto answer = client->call(what, body);
  if (!answer) return complain(answer.error().message);
  std::fputs(print(*answer).c_str(), stdout);
  return 0;
}

std::string nothing(const json&) { return {}; }

// False: it is no duration, as was said. An option that is not given changes nothing.
bool take_duration(const char* option, const std::string& text, const char* name, json& body) {
  const auto duration = text.empty() ? Result<Duration>() : parse_duration(text);
  if (!duration) complain(std::string(option) + ": " + duration.error().message, 2);
  if (duration && !text.empty()) body[name] = duration->count();
  return duration.has_value();
}

int control_instance(const Arguments& arguments, const std::string& what) {
  json body = {{"instance", arguments.instance}};  // empty: the only one
  if (what == "interrupt") body["action"] = arguments.action;
  if (!take_duration("--in", arguments.lead, "in_ms", body)) return 2;
  return ask(arguments, what, body, nothing);
}

int reserve(const Arguments& arguments) {
  json body = {{"kind", arguments.kind},
               {"type", arguments.type},
               {"zone", arguments.zone},
               {"instances", arguments.reserved}};
  const bool known = take_duration("--begins", arguments.begins, "begins_in_ms", body) &&
                     take_duration("--ends", arguments.ends, "ends_in_ms", body);
  if (!known) return 2;
  return ask(arguments, "reserve", body,
             [](const json& answer) { return answer.value("reservation", "") + "\n"; });
}

int reclaim(const Arguments& arguments) {
  json body = {{"reservation", arguments.reservation},
               {"instances", arguments.instances_left},
               {"in_metadata", arguments.in_metadata}};
  if (!take_duration("--in", arguments.lead, "in_ms", body)) return 2;
  return ask(arguments, "reclaim", body, nothing);
}

int add_instance(const Arguments& arguments) {
  json body = {{"type", arguments.type}};
  if (!arguments.zone.empty()) body["zone"] = arguments.zone;
  return ask(arguments, "instance", body, [](const json& answer) {
    return answer.value("instance", "") + " " + answer.value("metadata", "") + "\n";
  });
}

int inject_fault(const Arguments& arguments) {
  if (!arguments.list && arguments.fault.empty()) {
    return complain("which fault? `spotter-emulator fault --list` prints them all", 2);
  }
  if (arguments.list) {
    for (const auto& line : Control::fault_names()) std::printf("%s\n", line.c_str());
    return 0;
  }
  const auto fault = parse_fault(arguments.fault);
  if (!fault) return complain(fault.error().message, 2);
  return ask(arguments, "fault", json{{"name", fault->name}, {"arguments", fault->arguments}},
             nothing);
}

// The files are read here: the emulator may be elsewhere.
int set_policies(const Arguments& arguments) {
  json documents = json::array();
  for (const std::string& path : arguments.policies) {
    std::ifstream file(path);
    std::stringstream text;
    text << file.rdbuf();
    if (!file) return complain(path + " cannot be read", 2);
    documents.push_back(text.str());
  }
  return ask(arguments, "policy", json{{"who", arguments.who}, {"documents", documents}}, nothing);
}

int play_market(const Arguments& arguments) {
  const auto client = Client::find(arguments.api);
  if (!client) return complain(client.error().message, 2);
  const auto played = replay(*client, arguments.market);
  return played ? 0 : complain(played.error().message);
}

int show_state(const Arguments& arguments) {
  return ask(arguments, "state", std::nullopt, [&](const json& state) {
    return arguments.as_json ? state.dump(2) + "\n" : describe_state(state);
  });
}

// A shell evaluates it: what a file in this folder says, which may be another user's, stays a word.
int show_environment(const Arguments& arguments) {
  const auto directory = arguments.directory.empty() ? nearest_directory()
                                                     : std::filesystem::path(arguments.directory);
  const auto keys = read_keys(directory);
  const auto announced = read_announcement(directory);
  if (!announced) return complain(announced.error().message);
  if (!keys) return complain(keys.error().message);
  const auto show = [](const char* name, const std::string& value) {
    std::string quoted = value;
    for (auto at = quoted.find('\''); at != quoted.npos; at = quoted.find('\'', at + 4))
      quoted.replace(at, 1, "'\\''");
    std::printf("export %s='%s'\n", name, quoted.c_str());
  };
  show("AWS_ACCESS_KEY_ID", keys->access_key);
  show("AWS_SECRET_ACCESS_KEY", keys->secret);
  show("AWS_REGION", announced->region);
  show("AWS_DEFAULT_REGION", announced->region);
  show("AWS_ENDPOINT_URL", announced->api);
  if (!announced->certificate.empty()) show("AWS_CA_BUNDLE", announced->certificate);
  return 0;
}

int stop(const Arguments& arguments) {
  const auto client = Client::find(arguments.api);
  if (!client) return complain(client.error().message, 2);
  const auto stopped = client->stop();
  return stopped ? 0 : complain(stopped.error().message);
}

void describe_serve(CLI::App& app, Arguments& to) {
  auto* command = app.add_subcommand("serve", "Serve until stopped; prints one READY line");
  command
      ->add_option("--directory", to.serve.directory,
                   "Where disks, instances, logs and buckets (s3/BUCKET/KEY) go; else "
                   "$XDG_STATE_HOME/spotter-emulator, in ~/.local/state, root's in /var/lib")
      ->take_last();
  command->add_option("--api", to.serve_api, "EC2, S3 and control port; port 0: any")
      ->capture_default_str();
  command
      ->add_option("--metadata", to.serve_metadata,
                   "IMDS of the first identity outside a namespace; the next address is the "
                   "next one's; port 0: any")
      ->capture_default_str();
  command
      ->add_option("--zones", to.serve.zones,
                   "Availability zones, by commas; of several regions, each is a world of its own")
      ->delimiter(',');
  command->add_option("--instances", to.instances, "What an instance is")
      ->check(CLI::IsMember({"process", "container", "machine"}))
      ->capture_default_str();
  command->add_option("--root", to.containers.layers,
                      "container: the folder of a system that boots; more: layers, topmost first");
  command->add_option("--bind", to.serve.binds,
                      "A path of this machine that every instance sees and may write to: of a "
                      "container, or of an ordinary user's process; repeatable");
  command->add_option("--boot", to.serve.boot,
                      "machine: the program that boots one; more: its arguments, a word each");
  command->add_option("--disk", to.containers.disk, "container: how much an instance can write")
      ->capture_default_str();
  command->add_option("--mode", to.mode, "root: namespaces and loop devices; user: folders")
      ->check(CLI::IsMember({"auto", "root", "user"}));
  command->add_flag("--empty-account", to.serve.empty_account,
                    "Without the roles and instance profiles that IAM's own calls make; else all "
                    "are there, and may what `policy` says");
  auto* fixed = command->add_flag("--fixed-keys", to.fixed_keys,
                                  "The secret access key is emulator-secret, which everybody "
                                  "knows; else another at each start, "
                                  "in DIR/credentials (`spotter-emulator env`)");
  command->add_flag("--even-as-root", to.even_as_root, "--fixed-keys: also as root")->needs(fixed);
  command->add_option("--seed", to.serve.seed, "What AWS leaves open is chosen by it");
  command->add_option("--time-scale", to.serve.time_scale, "Seconds of the world in a real one")
      ->check(CLI::Range(0.01, 1000.0));
  command->add_flag("--cold-volumes", to.serve.cold_volumes,
                    "Volumes that are made of snapshots are slow until each block was read once; "
                    "needs root, FUSE and spotter-emulator-cold beside this program");
  command->add_option("--environment", to.serve.environment,
                      "NAME=VALUE for every instance, as if baked into its image; repeatable");
  command->add_option("--record", to.serve.record,
                      "Append each request and its answer to this file, a line of JSON each");
  auto* certificate = command->add_option("--tls-certificate", to.serve.certificate,
                                          "PEM chain: the API port speaks TLS");
  auto* key = command->add_option("--tls-key", to.serve.key, "PEM private key");
  certificate->needs(key);
  key->needs(certificate);
}

void describe_reservations(CLI::App& app, Arguments& to) {
  auto* reserve = app.add_subcommand("reserve", "A capacity reservation that ends; prints its id");
  reserve->add_option("kind", to.kind, "As the market type of its instances")
      ->check(CLI::IsMember({world::block_market, world::interruptible_market}))
      ->required();
  reserve->add_option("type", to.type, "Its instance type")->required();
  reserve->add_option("zone", to.zone, "Its zone")->required();
  reserve->add_option("--instances", to.reserved, "How many")->capture_default_str();
  reserve->add_option("--begins", to.begins, "From now, as in 10m; else at once");
  reserve->add_option("--ends", to.ends,
                      "Of a capacity block, from now: EC2 begins to end its instances 30 minutes "
                      "before");
  auto* reclaim = app.add_subcommand(
      "reclaim", "The owner of an interruptible reservation takes instances back");
  reclaim->add_option("reservation", to.reservation, "cr-...")->required();
  reclaim->add_option("--instances", to.instances_left, "How many it keeps")->capture_default_str();
  reclaim->add_option("--in", to.lead, "How long until the others end; else two minutes");
  reclaim->add_flag("--metadata", to.in_metadata,
                    "They have spot's notice in their metadata, too; AWS's pages do not say so");
}

void describe_control(CLI::App& app, Arguments& to) {
  auto* instance = app.add_subcommand("instance", "Instances")->require_subcommand(1);
  auto* add = instance->add_subcommand("add",
                                       "An identity without a process; prints its id and "
                                       "its metadata endpoint");
  add->add_option("--zone", to.zone, "Else the first");
  add->add_option("--type", to.type, "Its instance type")->capture_default_str();
  static constexpr std::pair<const char*, const char*> commands[] = {
      {"interrupt", "A notice in the instance's metadata now, its end at the deadline"},
      {"rebalance", "A rebalance recommendation"},
      {"withdraw", "Takes the notice back"},
      {"kill", "The end at once, without a notice"}};
  for (const auto& [name, what] : commands) {
    auto* command = app.add_subcommand(name, what);
    command->add_option("instance", to.instance, "i-...; else the only one that lives");
    if (std::string_view(name) != "interrupt") continue;
    command->add_option("--in", to.lead, "How long until the end, as in 120s");
    command->add_option("--action", to.action, "What is announced")
        ->check(CLI::IsMember({"terminate", "stop", "hibernate"}))
        ->capture_default_str();
  }
  describe_reservations(app, to);
  auto* fault = app.add_subcommand("fault", "Breaks something; `fault clear` mends it all");
  auto* named = fault->add_option("fault", to.fault,
                                  "latency ACTION 2s | throttle ACTION 60s | fail ACTION N CODE"
                                  " | imds MODE | capacity ZONE N | NAME KEY=VALUE...");
  fault->add_flag("--list", to.list, "All that can be broken, each with its arguments")
      ->excludes(named);
  auto* policy = app.add_subcommand("policy",
                                    "Who may do what, as IAM policies say it; "
                                    "without a file: everything again");
  policy
      ->add_option("who", to.who,
                   "instance: the role of all of them; role/NAME: one to be assumed; user: the one "
                   "of AKIAEMULATOR00000000; or a new user's name, whose access key is AKIA, the "
                   "name in capitals, noughts")
      ->required();
  policy->add_option("policies", to.policies, "JSON documents; what one of them allows is allowed");
  auto* environment = app.add_subcommand("env",
                                         "Prints what a shell exports to use it: "
                                         "eval \"$(spotter-emulator env --directory DIR)\"");
  environment->add_option("--directory", to.directory,
                          "That of `serve`; else this one, if an emulator serves it, else the one "
                          "that `serve` takes by itself");
  app.add_subcommand("state", "What there is")->add_flag("--json", to.as_json, "All of it");
  app.add_subcommand(
      "members",
      "What is honoured of requests to each service, as JSON: all else that AWS's models have is "
      "refused");
  app.add_subcommand("reset",
                     "As after a start: no instance, no volume, no bucket, no fault is left, and "
                     "what ran has ended; returns once it is so");
  app.add_subcommand("stop", "Ends the emulator and all its instances; waits for it");
}

void describe_market(CLI::App& app, Arguments& to) {
  auto* market = app.add_subcommand(
      "market",
      "Replays a spot market: pools get and lose capacity, and their prices move, as "
      "traces say; instances of a pool that loses it get the interruption notice");
  MarketOptions& options = to.market;
  market
      ->add_option("trace", options.places,
                   "Files, or folders of them, a pool each, as g5.xlarge_us-west-2a.csv: lines of "
                   "time,available,dollars")
      ->required();
  market->add_option("--speed", options.speed, "Seconds of the trace in one")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  market
      ->add_option("--tick", options.tick,
                   "How often the trace is looked at; capacity that goes within it is not there")
      ->capture_default_str();
  market->add_option("--from", options.from, "Where in the trace it begins, as in 90m")
      ->capture_default_str();
  market->add_option("--until", options.until, "Where in the trace it ends");
  market->add_option("--in", options.lead, "From a notice to the end, in the emulator's time");
  market->add_option("--spot", options.usual, "Dollars an hour where a trace has no prices")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
}

json as_json(const world::Members& members) {
  json names = json::object();
  for (const auto& [path, values] : members.all()) names[path] = values;
  return names;
}

// By service, operation and member's path; of those that are honoured for some values only, these.
int show_members() {
  json all;
  for (const auto& [operation, members] : world::ec2_members())
    all["ec2"][operation] = as_json(members.honoured);
  for (const auto& [operation, members] : world::auto_scaling_members())
    all["autoscaling"][operation] = as_json(members);
  for (const auto& [operation, members] : world::s3::members())
    all["s3"][operation] = as_json(members);
  for (const auto& [operation, members] : world::batch::members())
    all["batch"][operation] = as_json(members);
  for (const auto& [service, operations] : world::service_members())
    for (const auto& [operation, members] : operations) all[service][operation] = as_json(members);
  std::cout << all.dump(1) << '\n';
  return 0;
}

int dispatch(const CLI::App& app, Arguments& arguments) {
  const std::string command = app.get_subcommands().at(0)->get_name();
  if (command == "serve") return serve(arguments);
  if (command == "instance") return add_instance(arguments);
  if (command == "reserve") return reserve(arguments);
  if (command == "reclaim") return reclaim(arguments);
  if (command == "fault") return inject_fault(arguments);
  if (command == "policy") return set_policies(arguments);
  if (command == "market") return play_market(arguments);
  if (command == "state") return show_state(arguments);
  if (command == "env") return show_environment(arguments);
  if (command == "members") return show_members();
  if (command == "reset") return ask(arguments, "reset", json::object(), nothing);
  if (command == "stop") return stop(arguments);
  return control_instance(arguments, command);
}

int run(int argc, char** argv) {
  CLI::App app("IMDS, EC2, spot fleets and S3 on this machine", "spotter-emulator");
  Arguments arguments;
  app.add_option("--api", arguments.api,
                 "The emulator to talk to; else SPOTTER_EMULATOR, else ./emulator.json, else the "
                 "one that serves without --directory");
  app.set_version_flag("--version", "spotter-emulator " SPOTTER_VERSION);
  app.require_subcommand(1);
  describe_serve(app, arguments);
  describe_control(app, arguments);
  describe_market(app, arguments);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  return dispatch(app, arguments);
}

}  // namespace
}  // namespace spotter::emulator

int main(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == "instance-init")
    return spotter::emulator::instance_init(argc, argv);
  return spotter::emulator::run(argc, argv);
}

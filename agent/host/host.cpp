#include "agent/host/host.hpp"

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>

#include "agent/host/attempt.hpp"
#include "agent/host/checkout.hpp"
#include "agent/host/device.hpp"
#include "agent/host/format.hpp"
#include "agent/host/gpus.hpp"
#include "agent/host/inspect.hpp"
#include "agent/host/journal.hpp"
#include "agent/host/ledger.hpp"
#include "agent/host/metrics.hpp"
#include "agent/host/mount.hpp"
#include "agent/host/mounts.hpp"
#include "agent/host/prepare_fill.hpp"
#include "agent/host/share.hpp"
#include "agent/host/summary.hpp"
#include "agent/host/user.hpp"
#include "agent/host/verify.hpp"

namespace spotter::command {
namespace {

using nlohmann::json;
namespace work = act::host;

// The options of all verbs; each verb registers those that it reads.
struct Options {
  work::DeviceQuery query;
  work::MountRequest mount;
  work::CheckoutRequest checkout;
  work::ShareRequest share;
  work::GpuQuery gpus;
  std::string name;  // of a file that is kept
  std::string as;    // a user: on a share everything is done as the trainer's
  std::string tree;  // of a share: what is synced, file by file
  std::string wait = "0";
  std::string path;
  std::uint64_t token = 0;
  std::size_t index = 0;
  std::string attempt, parent;
  std::string files;  // patterns; empty: checkpoints of libspotter's own
  bool read_only = false;
  std::optional<std::uint64_t> resumed;
};

using Verb = std::function<json()>;

std::string input() { return {std::istreambuf_iterator<char>(std::cin), {}}; }

json failed(const work::Failure& failure) {
  return {{"ok", false}, {"kind", failure.kind}, {"error", failure.error}};
}

template <class T>
json answer(const work::Outcome<T>& outcome, const std::function<json(const T&)>& fields) {
  if (!outcome) return failed(outcome.error());
  json object = fields(*outcome);
  object["ok"] = true;
  return object;
}

json answer(const work::Outcome<void>& outcome) {
  return outcome ? json{{"ok", true}} : failed(outcome.error());
}

json describe(const work::Inspection& found) {
  return {{"blank", found.blank}, {"filesystem", found.filesystem}, {"label", found.label},
          {"uuid", found.uuid},   {"signature", found.signature},   {"detail", found.detail},
          {"bytes", found.bytes}};
}

json describe(const work::Look& seen) {
  return {{"mounted", seen.mounted},       {"device", seen.device},
          {"filesystem", seen.filesystem}, {"volume", seen.volume},
          {"recorded", seen.recorded},     {"read_only", seen.read_only},
          {"size_bytes", seen.size_bytes}, {"free_bytes", seen.free_bytes}};
}

json describe(const work::Mounted& mounted) {
  return {{"already", mounted.already},
          {"previous_volume", mounted.previous_volume},
          {"owners_changed", mounted.owners_changed},
          {"cache", mounted.cache},
          {"free_bytes", mounted.free_bytes}};
}

json describe(const work::Verified& verified) {
  const json newest = verified.newest ? json(*verified.newest) : json();
  return {{"newest", newest},
          {"path", verified.path.string()},
          {"torn", verified.torn},
          {"said", verified.said}};
}

json describe(const work::LedgerRead& read) {
  json fields = json::parse(work::to_json(read.ledger));
  if (!read.warning.empty()) fields["warning"] = read.warning;
  return fields;
}

json describe(const std::filesystem::path& device) { return {{"device", device.string()}}; }
json describe(const work::CheckedOut& checked_out) { return {{"fetched", checked_out.fetched}}; }

template <class T>
json told(const work::Outcome<T>& outcome) {
  return answer<T>(outcome, [](const T& value) { return describe(value); });
}

// "1500", "1500ms" or "2s". CLI11 has checked the form.
std::chrono::milliseconds duration(const std::string& text) {
  const double number = std::strtod(text.c_str(), nullptr);
  const bool seconds = text.back() == 's' && text.find("ms") == std::string::npos;
  return std::chrono::milliseconds(static_cast<std::int64_t>(seconds ? number * 1000 : number));
}

std::string check_duration(const std::string& text) {
  const auto unit = text.find_first_not_of("0123456789.");
  const auto rest = unit == std::string::npos ? "" : text.substr(unit);
  if (unit != 0 && !text.empty() && (rest.empty() || rest == "ms" || rest == "s")) return {};
  return "a duration looks like 1500ms or 2s, not " + text;
}

CLI::App* add(CLI::App& app, const char* name, const char* help, Verb& chosen, Verb verb) {
  auto* command = app.add_subcommand(name, help);
  command->callback([&chosen, verb = std::move(verb)] { chosen = verb; });
  return command;
}

void add_disk_verbs(CLI::App& app, Options& options, Verb& chosen) {
  auto& mount = options.mount;
  auto* find = add(app, "find-device", "where the volume's disk is", chosen, [&options] {
    options.query.wait = duration(options.wait);
    return told(work::find_device(options.query));
  });
  find->add_option("--volume", options.query.volume)->required();
  find->add_option("--hint", options.query.hint, "the attachment's device name, for Xen");
  find->add_option("--wait", options.wait)->check(check_duration);
  auto* inspect = add(app, "inspect", "what is on the disk", chosen,
                      [&mount] { return told(work::inspect(mount.device)); });
  auto* format = add(app, "format", "make a file system on a blank disk", chosen,
                     [&mount] { return told(work::format(mount.device, mount.filesystem)); });
  auto* attach = add(app, "mount", "mount and lay out the volume", chosen,
                     [&mount] { return told(work::mount(mount)); });
  auto* data = add(app, "mount-data", "mount a volume of data, read-only", chosen,
                   [&mount] { return told(work::mount_data(mount.device, mount.mount_point)); });
  for (auto* command : {inspect, format, attach, data})
    command->add_option("--device", mount.device)->required();
  for (auto* command : {format, attach})
    command->add_option("--filesystem", mount.filesystem)->required();
  for (auto* verb : {attach, data})
    verb->add_option("--mount-point", mount.mount_point)->required();
  attach->add_option("--volume", mount.volume)->required();
  attach->add_option("--user", mount.user)->required();
  attach->add_option_function<std::string>(
      "--checkpoints", [&mount](const std::string& name) { mount.directories.push_back(name); },
      "another directory of the user's, relative");
  attach->add_option_function<std::string>(
      "--container",
      [&mount](const std::string& name) {
        mount.directories.push_back(name);
        mount.container = name;
      },
      "and one for channels and SageMaker's files");
  attach->add_option("--link", mount.link, "a symbolic link that leads there");
  attach->add_option("--cache", mount.cache, "a folder on the machine's own disks");
  attach->add_flag("--read-only", mount.read_only);
}

void add_mount_verbs(CLI::App& app, Options& options, Verb& chosen) {
  auto& path = options.path;
  auto* unmount = add(app, "unmount", "sync and unmount", chosen, [&options] {
    const auto done = work::unmount(options.path, duration(options.wait));
    if (done) work::remove_link(options.mount.link, options.path);
    return answer<bool>(done, [](bool was_mounted) { return json{{"was_mounted", was_mounted}}; });
  });
  unmount->add_option("--wait", options.wait)->check(check_duration);
  unmount->add_option("--link", options.mount.link, "mount's, which then leads nowhere");
  auto* look = add(app, "look", "what is mounted there", chosen,
                   [&options] { return told(work::look(options.path, options.query.devices)); });
  auto* sync = add(app, "sync", "make the file system durable", chosen, [&options] {
    const auto& tree = options.tree;
    if (const auto synced = tree.empty() ? work::Outcome<void>() : work::sync_tree(tree); !synced)
      return answer(synced);
    return answer(work::sync(options.path));
  });
  sync->add_option("--tree", options.tree, "and each file below this one by itself");
  auto* read = add(app, "ledger-read", "the job's counts", chosen,
                   [&path] { return told(work::read_ledger(path)); });
  auto* write = add(app, "ledger-write", "keep the job's counts, JSON on stdin", chosen, [&path] {
    const auto ledger = work::parse_ledger(input());
    return ledger ? answer(work::write_ledger(path, *ledger))
                  : failed({"bad-request", "what stdin has is no account"});
  });
  for (auto* command : {unmount, look, sync, read, write})
    command->add_option("--mount-point", path)->required();
}

json fill_volume() {
  const auto request = config::parse_fill_request(input());
  if (!request) return failed({"bad-request", request.error().message});
  std::vector<std::string> said;
  const auto filled = fill(
      *request, [] { return false; }, [&said](const std::string& line) { said.push_back(line); });
  if (!filled) return failed({"fill-failed", filled.error().message});
  return {{"ok", true}, {"said", said}};
}

void add_content_verbs(CLI::App& app, Options& options, Verb& chosen) {
  add(app, "fill", "bring what `prepare:` names onto the volume, JSON on stdin", chosen,
      fill_volume);
  auto& checkout = options.checkout;
  auto* code = add(app, "checkout", "fetch the pinned commit as the user", chosen, [&checkout] {
    if (const char* token = std::getenv("SPOTTER_GIT_TOKEN")) checkout.token = token;
    const auto done = work::checkout(checkout);
    if (done) return told(done);
    const auto home = std::filesystem::path(checkout.directory).parent_path();
    const auto place = work::probe_share(home);  // git knows that it failed, not why
    return failed(place ? done.error() : place.error());
  });
  code->add_option("--repository", checkout.repository)->required();
  code->add_option("--revision", checkout.revision)->required();
  code->add_option("--directory", checkout.directory)->required();
  code->add_option("--user", checkout.user)->required();
  auto* verify = add(app, "verify", "the newest checkpoint that is whole", chosen, [&options] {
    const auto& mount = options.mount.mount_point;
    const work::VerifyRequest request{mount, options.path, options.read_only, options.mount.user};
    if (options.files.empty()) return told(work::verify_checkpoints(request));
    return told(work::verify_files(request, options.files));
  });
  verify->add_option("--user", options.mount.user, "the trainer's, whose checkpoints they are");
  verify->add_option("--mount-point", options.mount.mount_point)->required();
  verify->add_option("--checkpoints", options.path, "relative to it")->required();
  verify->add_option("--files", options.files, "patterns of a trainer's own files");
  verify->add_flag("--read-only", options.read_only);
  auto* gpus = add(app, "await-gpus", "until so many work", chosen, [&options] {
    options.gpus.wait = duration(options.wait);
    options.gpus.devices = options.query.devices;
    return answer(work::await_gpus(options.gpus));
  });
  gpus->add_option("--count", options.gpus.count, "0: all")->required()->check(CLI::Range(0, 64));
  gpus->add_option("--wait", options.wait)->check(check_duration);
}

// Those that tell a share from another; each verb of a share takes all.
void add_share_options(CLI::App& verb, work::ShareRequest& share) {
  verb.add_option("--kind", share.kind)->required();
  verb.add_option("--mount-point", share.mount_point)->required();
  verb.add_option("--server", share.server);
  verb.add_option("--path", share.path);
  verb.add_option("--options", share.options);
  verb.add_option("--access-point", share.access_point);
  verb.add_option("--key", share.key);
  verb.add_option("--known-hosts", share.known_hosts);
  verb.add_option("--port", share.port);
  verb.add_option("--region", share.region);
  verb.add_flag("--tls", share.tls);
  verb.add_option("--user", share.user);
  verb.add_option("--job", share.job);
  verb.add_option("--holder", share.holder);
  verb.add_option("--directory", share.directories);
  verb.add_option("--container", share.container);
  verb.add_option("--link", share.link);
  verb.add_flag("--again", share.again);
  verb.add_flag("--identity", share.identity);
  verb.add_option("--cache", share.cache);
}

void add_share_verbs(CLI::App& app, Options& options, Verb& chosen) {
  auto& share = options.share;
  auto* prepare =
      add(app, "prepare-share", "mount the share if need be, and lay out the job's folder", chosen,
          [&share] {
            return answer<work::Prepared>(work::prepare_share(share), [](const auto& done) {
              return json{{"cache", done.cache}, {"foreign", done.foreign}, {"id", done.id}};
            });
          });
  auto* release =
      add(app, "release-share", "unmount it lazily, if it is ours to unmount", chosen, [&share] {
        return answer<bool>(work::release_share(share), [](bool unmounted) {
          return json{{"unmounted", unmounted}};
        });
      });
  auto* look = add(app, "look-share", "is it mounted?", chosen, [&share] {
    return json{{"ok", true}, {"mounted", work::is_share_mounted(share)}};
  });
  for (auto* verb : {prepare, release, look}) add_share_options(*verb, share);
  auto& path = options.path;
  auto* probe = add(app, "probe-share", "does its server answer?", chosen, [&path, &share] {
    const bool there = share.mount_point.empty() || work::mount_at(share.mount_point);
    return there ? answer(work::probe_share(path)) : json{{"ok", true}, {"mounted", false}};
  });
  probe->add_option("--mount", share.mount_point, "nothing is asked while nothing is mounted here");
  auto* done = add(app, "mark-done", "say that the result is durable", chosen,
                   [&options] { return answer(work::mark_done(options.path, options.share.job)); });
  auto* there = add(app, "there", "is the result there?", chosen, [&path] {
    std::error_code error;
    const bool is = std::filesystem::exists(path, error);
    if (error)
      return answer(work::Outcome<void>(work::fail_errno(error, "cannot look at " + path)));
    return json{{"ok", true}, {"there", is}};
  });
  auto* log = add(app, "keep-log", "append the trainer's log to the one on the share", chosen,
                  [&options] { return answer(work::keep_log(options.tree, options.path)); });
  auto* metrics = add(app, "keep-metrics", "join lines from stdin to a curve", chosen, [&options] {
    const auto kept = work::keep_metrics(options.path, input(), options.resumed);
    return answer<std::string>(kept, [](const auto& said) { return json{{"said", said}}; });
  });
  metrics->add_option("--resumed", options.resumed, "the step from which the trainer went on");
  auto* lines = add(app, "keep-lines", "append lines from stdin to a file of a home's .spotter",
                    chosen, [&] { return answer(work::keep_lines(path, options.name, input())); });
  const std::set<std::string_view> kept{work::log_name, work::history_name};
  lines->add_option("--name", options.name)->required()->check(CLI::IsMember(kept));
  for (auto* verb : {probe, done, there, log, metrics, lines})
    verb->add_option("--path", path)->required();
  done->add_option("--job", share.job)->required();
  log->add_option("--from", options.tree)->required();
}

void add_attempt_verbs(CLI::App& app, Options& options, Verb& chosen) {
  auto* find = add(app, "find-parent", "the newest attempt before one", chosen, [&options] {
    return answer<std::string>(work::find_parent(options.path, options.token),
                               [](const auto& parent) {
                                 return json{{"answer", parent}};
                               });
  });
  auto* begin = add(app, "begin-attempt", "a folder that begins as another's copy", chosen, [&] {
    return answer(work::begin_attempt(options.path, options.attempt, options.parent));
  });
  auto* publish = add(app, "publish-attempt", "its result is the one that counts", chosen,
                      [&] { return answer(work::publish_attempt(options.path, options.attempt)); });
  auto* sum = add(app, "sum-up", "what became of an experiment", chosen, [&options] {
    const auto summary = work::summary_of(options.path, options.index, {}, options.token);
    if (!summary) return failed({"host-error", summary.error().message});
    return json{{"ok", true}, {"answer", sweep::to_json(*summary)}};
  });
  sum->add_option("--index", options.index)->required();
  sum->add_option("--token", options.token)->required();
  for (auto* verb : {find, begin, publish, sum})
    verb->add_option("--path", options.path)->required();
  for (auto* verb : {begin, publish}) verb->add_option("--attempt", options.attempt)->required();
  find->add_option("--token", options.token)->required();
  begin->add_option("--parent", options.parent);
}

int print(const json& object, int status) {
  // What a disk's label or git's words hold need not be UTF-8.
  const auto line = object.dump(-1, ' ', false, json::error_handler_t::replace);
  const bool printed = std::printf("%s\n", line.c_str()) > 0 && std::fflush(stdout) == 0;
  return printed ? status : 1;
}

}  // namespace

int host(int argc, char** argv) {
  Options options;
  if (const char* devices = std::getenv("SPOTTER_DEVICES"); devices != nullptr && *devices != 0) {
    options.query.devices = options.mount.devices = options.share.devices = devices;
  }
  Verb chosen;
  CLI::App app("One piece of local work; prints one line of JSON", "spotter host");
  app.require_subcommand(1);
  app.add_option("--as", options.as, "the user as whom it is done");
  add_share_verbs(app, options, chosen);
  add_disk_verbs(app, options, chosen);
  add_mount_verbs(app, options, chosen);
  add_content_verbs(app, options, chosen);
  add_attempt_verbs(app, options, chosen);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    return print(failed({"bad-request", error.what()}), 2);
  }
  std::optional<work::AsUser> as;
  if (!options.as.empty()) {
    const auto user = work::find_user(options.as);
    if (!user) return print(failed(user.error()), 1);
    as.emplace(*user);
  }
  const json object = chosen();
  const bool ok = object.value("ok", false);
  const int bad = object.value("kind", "") == "bad-request" ? 2 : 1;
  return print(object, ok ? 0 : bad);
}

}  // namespace spotter::command

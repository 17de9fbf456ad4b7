#include "agent/host/host.hpp"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iomanip>
#include <iostream>
#include <iterator>
#include <sstream>
#include <thread>

#include "agent/aws/formats/s3.hpp"
#include "agent/base/record.hpp"
#include "agent/base/text.hpp"
#include "agent/guard/keeper.hpp"
#include "agent/host/attempt.hpp"
#include "agent/host/checkout.hpp"
#include "agent/host/cold.hpp"
#include "agent/host/mount.hpp"
#include "agent/host/prepare.hpp"
#include "agent/host/records.hpp"
#include "agent/host/share.hpp"
#include "agent/io/safe_directory.hpp"
#include "agent/supervise/client.hpp"
#include "agent/sweep/summary.hpp"
#include "agent/tier/home.hpp"
#include "agent/tier/results.hpp"
#include "agent/wire/status.hpp"
#include "trainer/library/checkpoint.hpp"

namespace spotter::act::host {

namespace {

// A mapped file has fewer bytes than when it was mapped. Nothing is committed.
void became_shorter(int) {
  constexpr std::string_view words =
      "{\"ok\":false,\"kind\":\"home-changed\",\"error\":\"a file of the home became shorter while "
      "it was copied\"}\n";
  [[maybe_unused]] const auto written = ::write(1, words.data(), words.size());
  ::_exit(1);
}

// Fails for a place that is none in S3.
Result<tier::Home> home_of(const verbs::Home& it) {
  std::signal(SIGBUS, became_shorter);
  return tier::Home{it,
                    TRY(wire::parse_s3_url(it.at)),
                    {.environment = Environment::of_this_process().with(it.identity)}};
}

fs::path checkpoints_of(const verbs::Verify& request) {
  return fs::path(request.mount_point) / request.checkpoints;
}

// None: as who we are. Only a copy, which cannot be changed, is read with its owner's rights.
Result<std::optional<User>> reader_of(const verbs::Verify& request) {
  if (request.user.empty()) return std::optional<User>();
  auto user = TRY(find_user(request.user));
  const auto mount = io::SafeDirectory::open(request.mount_point);
  const auto seen =
      mount ? mount->look(request.checkpoints) : tl::unexpected<std::error_code>(mount.error());
  const bool others = seen && S_ISDIR(seen->st_mode) && seen->st_uid != 0;
  if (!request.read_only || !others || seen->st_uid == user.uid) return std::optional(user);
  return std::optional(User{"", seen->st_uid, seen->st_gid, "", {seen->st_gid}});
}

// Reads the files of a copy's newest checkpoint, in its directory, before the verification does: no
// block of it has been touched yet. Says for a person how that went; "": there was nothing to read.
std::string read_first(const verbs::Verify& request, const std::vector<std::string>& names) {
  const auto began = std::chrono::steady_clock::now();
  const auto mount = io::SafeDirectory::open(request.mount_point);
  const auto folder =
      mount ? mount->folder(request.checkpoints) : tl::unexpected<std::error_code>(mount.error());
  const std::uint64_t bytes = folder ? read_cold(*folder, names) : 0;
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
  std::ostringstream words;
  if (bytes > 0)
    words << "the newest checkpoint of the copy, " << guard::bytes_text(bytes)
          << ", is read: " << std::fixed << std::setprecision(1) << took.count() << " s";
  return words.str();
}

std::vector<std::string> newest_files(const fs::path& directory) {
  std::vector<std::string> names;
  const auto steps = checkpoint::steps_in(directory);
  if (!steps || steps->empty()) return names;
  const std::string newest = checkpoint::directory_name(steps->front());
  const auto manifest = checkpoint::read_manifest(directory / newest);
  if (!manifest) return names;
  for (const auto& part : manifest->parts) names.push_back(newest + "/" + part.name);
  return names;
}

std::vector<std::string> newest_files(const guard::Record& record) {
  std::vector<std::string> names;
  const guard::Generation* newest = record.newest();
  if (newest == nullptr || newest->name.empty()) return names;
  for (const guard::Part& part : record.parts_of(newest->name))
    names.push_back(part.name == newest->name ? part.name : newest->name + "/" + part.name);
  return names;
}

}  // namespace
}  // namespace spotter::act::host

namespace spotter::command {
namespace {

using nlohmann::json;
namespace work = act::host;

constexpr const char* usage =
    "spotter host: one piece of local work for the agent; prints one line of JSON.\n"
    "What to do is one JSON object on standard input: {\"verb\":\"look\",\"mount_point\":\"/x\"}\n";

json failed(const Error& failure) {
  return {{"ok", false}, {"kind", failure.kind}, {"error", failure.message}};
}

json answer(const Result<void>& outcome) {
  return outcome ? json{{"ok", true}} : failed(outcome.error());
}

// With a field that is named.
template <class T>
json answer(const Result<T>& outcome, const char* name) {
  return outcome ? json{{"ok", true}, {name, *outcome}} : failed(outcome.error());
}

template <class Record>
requires requires { Record::keys; }
json describe(const Record& record) { return wire::object_of(record); }

json describe(const work::Verified& verified) {
  const json newest = verified.newest ? json(*verified.newest) : json();
  return {{"newest", newest},
          {"path", verified.path.string()},
          {"torn", verified.torn},
          {"said", verified.said}};
}

json describe(const work::LedgerRead& read) {
  json fields = json::parse(wire::to_json(read.file));
  if (!read.warning.empty()) fields["warning"] = read.warning;
  fields["others_seconds"] = read.others.seconds;
  fields["others_dollars"] = read.others.dollars;
  return fields;
}

json describe(const fs::path& device) { return {{"device", device.string()}}; }

template <class T>
json answer_of(const Result<T>& outcome) {
  if (!outcome) return failed(outcome.error());
  json object = describe(*outcome);
  object["ok"] = true;
  return object;
}

json bad(std::string why) { return failed({.message = std::move(why), .kind = "bad-request"}); }

// Each verb, and what it answers. A verb that is missing here does not compile.
struct Host {
  work::Machine machine;

  json operator()(const verbs::FindDevice& it) const {
    return answer_of(work::find_device(it, machine));
  }
  json operator()(const verbs::Inspect& it) const { return answer_of(work::inspect(it.device)); }
  json operator()(const verbs::Format& it) const {
    return answer_of(work::format(it.device, it.filesystem));
  }
  json operator()(const verbs::Mount& it) const { return answer_of(work::mount(it, machine)); }
  json operator()(const verbs::MountData& it) const {
    return answer_of(work::mount_data(it.device, it.mount_point));
  }
  json operator()(const verbs::Unmount& it) const {
    return answer(work::unmount(it, machine), "was_mounted");
  }
  json operator()(const verbs::Warm& it) const { return answer_of(work::warm(it)); }
  json operator()(const verbs::Look& it) const {
    return answer_of(work::look(it.mount_point, machine.devices));
  }

  json operator()(const verbs::PrepareShare& it) const {
    return answer_of(work::prepare_share(it, machine));
  }
  json operator()(const verbs::ReleaseShare& it) const {
    return answer(work::release_share(it), "unmounted");
  }
  json operator()(const verbs::LookShare& it) const {
    return {{"ok", true},
            {"mounted", work::is_share_mounted(it.share)},
            {"ec2", work::is_ec2(machine)}};
  }
  json operator()(const verbs::ProbeShare& it) const {
    const bool there = it.mount_point.empty() || work::mount_at(it.mount_point);
    return there ? answer(work::probe_share(it.path)) : json{{"ok", true}, {"mounted", false}};
  }

  json operator()(const verbs::BringHome& it) const {
    const auto home = work::home_of(it.home);
    const auto brought =
        home ? tier::bring(*home, it.manifest, it.held) : tl::unexpected<Error>(home.error());
    if (!brought) return failed(brought.error());
    return {{"ok", true},
            {"files", brought->files},
            {"bytes", brought->bytes},
            {"torn", brought->torn},
            {"cleared", brought->cleared},
            {"s3_writes", brought->requests.writes},
            {"s3_reads", brought->requests.reads}};
  }
  json operator()(const verbs::KeepHome& it) const {
    const auto home = work::home_of(it.home);
    const auto kept = home ? tier::keep(*home, it) : tl::unexpected<Error>(home.error());
    if (!kept) return failed(kept.error());
    return {{"ok", true},
            {"manifest", kept->manifest},
            {"newest", kept->newest},
            {"bytes", kept->bytes},
            {"sent", kept->sent},
            {"said", kept->said},
            {"s3_writes", kept->requests.writes},
            {"s3_reads", kept->requests.reads}};
  }

  json operator()(const verbs::ReadLedger& it) const {
    auto read = work::read_ledger(it.mount_point);
    if (read && it.others) read->others = work::spent_by_others(it.mount_point);
    return answer_of(read);
  }
  json operator()(const verbs::WriteLedger& it) const {
    return answer(work::write_ledger(it.mount_point, it.ledger));
  }
  json operator()(const verbs::Sync& it) const {
    if (!it.tree.empty())
      if (const auto synced = work::sync_tree(it.tree); !synced) return answer(synced);
    return answer(work::sync(it.mount_point));
  }
  json operator()(const verbs::SendResult& it) const {
    const auto user = work::find_user(it.user);
    const auto to = wire::parse_s3_url(it.to);
    if (!user) return failed(user.error());
    if (!to) return bad(to.error().message);
    bucket::Bucket bucket(*to, it.job, {.environment = act::Environment::of_this_process()});
    const auto sent = tier::send_files(bucket, it.job,
                                       {it.home, it.paths, [&](const std::function<void()>& work) {
                                          const work::AsUser as(*user);
                                          work();
                                        }});
    if (!sent) return failed(sent.error());
    return {
        {"ok", true}, {"files", sent->files}, {"bytes", sent->bytes}, {"left_out", sent->left_out}};
  }
  json operator()(const verbs::Verify& it) const { return answer_of(work::verify(it)); }
  json operator()(const verbs::Checkout& it) const {
    const auto done = work::checkout(it);
    if (done) return answer_of(done);
    const auto home = fs::path(it.directory).parent_path();
    const auto place = work::probe_share(home);  // git knows that it failed, not why
    return failed(place ? done.error() : place.error());
  }
  json operator()(const verbs::Fill& it) const {
    const auto said = fill(it, [] { return false; });
    if (!said) return failed({.message = said.error().message, .kind = "fill-failed"});
    return {{"ok", true}, {"said", *said}};
  }
  json operator()(const verbs::There& it) const {
    std::error_code error;
    const bool is = fs::exists(it.path, error);
    if (error) return answer(work::fail_errno(error, "cannot look at " + it.path));
    return {{"ok", true}, {"there", is}};
  }
  json operator()(const verbs::MarkDone& it) const {
    return answer(work::mark_done(it.path, it.job));
  }
  json operator()(const verbs::KeepLog& it) const {
    return answer(work::keep_log(it.from, it.path, it.end));
  }
  json operator()(const verbs::KeepMetrics& it) const {
    return answer(work::keep_metrics(it.path, it.lines, it.resumed), "said");
  }
  json operator()(const verbs::KeepLines& it) const {
    if (it.name != work::log_name && it.name != work::history_name)
      return bad("\"" + it.name + "\" is no file that lines are kept in");
    return answer(work::keep_lines(it.path, it.name, it.lines));
  }

  json operator()(const verbs::FindParent& it) const {
    return answer(work::find_parent(it.path, it.token), "answer");
  }
  json operator()(const verbs::BeginAttempt& it) const {
    return answer(work::begin_attempt(it.path, it.attempt, it.parent));
  }
  json operator()(const verbs::PublishAttempt& it) const {
    return answer(work::publish_attempt(it.path, it.attempt));
  }
  json operator()(const verbs::SumUp& it) const {
    if (!it.copy_of.empty() && !tier::is_copy(it.path, it.copy_of))
      return failed({.message = it.path + " is no copy of " + it.copy_of, .kind = "host-error"});
    const auto summary = sweep::summary_of(it.path, it.index, {}, it.token);
    if (!summary) return failed({.message = summary.error().message, .kind = "host-error"});
    return {{"ok", true}, {"answer", sweep::to_json(*summary)}};
  }

  json operator()(const verbs::AwaitGpus& it) const {
    return answer(work::await_gpus(it, machine));
  }
};

json done(std::string_view text) {
  const auto request = verbs::parse_request(text);
  if (!request) return bad(request.error().message);
  Host host;
  if (const char* devices = std::getenv("SPOTTER_DEVICES"); devices != nullptr && *devices != 0)
    host.machine.devices = devices;
  std::optional<work::AsUser> as;
  if (!request->as.empty()) {
    const auto user = work::find_user(request->as);
    if (!user) return failed(user.error());
    as.emplace(*user);
  }
  return std::visit(host, request->verb);
}

}  // namespace

int do_request(std::string_view text) {
  const json object = done(text);
  // A disk's label, or git's words, need not be UTF-8.
  const auto line = wire::json_text(object);
  if (std::printf("%s\n", line.c_str()) <= 0 || std::fflush(stdout) != 0) return 1;
  if (object.value("ok", false)) return 0;
  return object.value("kind", "") == "bad-request" ? wrong_input : 1;
}

int host(int argc, char** argv) {
  if (argc > 1) {
    const bool asked = std::string_view(argv[1]) == "--help" || std::string_view(argv[1]) == "-h";
    (asked ? std::cout : std::cerr) << usage;
    return asked ? 0 : wrong_input;
  }
  return do_request(std::string{std::istreambuf_iterator<char>(std::cin), {}});
}

namespace {

using supervise::Descriptor;

// Our end is that of all that we have started: tools die with us, and systemd sees to the rest.
void end_with(pid_t asker, std::string answer) {
  const auto process = supervise::open_pidfd(asker);
  if (!process) _exit(1);
  std::thread([file = *process, answer = std::move(answer)] {
    pollfd ended{file, POLLIN, 0};
    while (poll(&ended, 1, -1) <= 0) continue;
    unlink(answer.c_str());
    _exit(1);
  }).detach();
}

}  // namespace

std::string to_bytes(const VerbRequest& request) {
  std::string bytes = std::to_string(request.asker) + '\0' + request.answer + '\0';
  for (const std::string& variable : request.environment) bytes += variable + '\0';
  return bytes + request.json;
}

Result<VerbRequest> parse_verb_request(std::string_view bytes) {
  auto words = act::host::names_in(bytes);
  const auto asker = number_of_text<pid_t>(words.empty() ? "" : words[0]);
  if (words.size() < 2 || !asker) return failure("the request for a verb is not whole");
  return VerbRequest{.asker = *asker,
                     .answer = words[1],
                     .environment = {words.begin() + 2, words.end()},
                     .json = std::string(bytes.substr(bytes.rfind('\0') + 1))};
}

std::vector<std::string> environment_of_this_process() {
  std::vector<std::string> variables;
  for (char** entry = ::environ; *entry != nullptr; ++entry) variables.emplace_back(*entry);
  return variables;
}

Result<std::string> take_verb_request(const std::string& file) {
  std::ifstream stream(file, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(stream), {}};
  unlink(file.c_str());
  auto request = TRY(parse_verb_request(bytes));
  end_with(request.asker, request.answer);
  const Descriptor answer(
      open(request.answer.c_str(), O_WRONLY | O_TRUNC | O_CLOEXEC | O_NOFOLLOW));
  if (!answer || dup2(answer.get(), STDOUT_FILENO) < 0)
    return failure("cannot answer in " + request.answer + ": " + std::strerror(errno));
  clearenv();
  for (const auto& entry : request.environment) {
    const auto equals = entry.find('=');
    if (equals != entry.npos)
      setenv(entry.substr(0, equals).c_str(), entry.substr(equals + 1).c_str(), 1);
  }
  return std::move(request.json);
}

}  // namespace spotter::command

namespace spotter::act::host {

Result<Verified> verify_checkpoints(const verbs::Verify& request) {
  const auto reader = TRY(reader_of(request));
  std::optional<AsUser> as;
  if (reader) as.emplace(*reader);
  const fs::path directory = checkpoints_of(request);
  std::error_code error;
  if (!fs::exists(directory, error) && !error) return Verified{};
  Verified verified;
  const auto said =
      request.read_only ? read_first(request, newest_files(directory)) : std::string();
  if (!said.empty()) verified.said.push_back(said);
  const auto latest =
      request.read_only ? checkpoint::newest_in(directory) : checkpoint::latest(directory);
  if (!latest) return fail("verify-failed", latest.error().message);
  if (latest->newest) {
    verified.newest = latest->newest->step;
    verified.path = latest->newest->path;
  }
  for (const auto& torn : latest->torn) {
    const auto& place = torn.moved_to.empty() ? torn.path : torn.moved_to;
    verified.torn.push_back(place.string() + ": " + torn.reason);
  }
  return verified;
}

Result<Verified> verify(const verbs::Verify& request) {
  // Nothing but the reading is left of what was proven, as none is torn.
  const auto by_library = [&] { return request.proven ? Verified{} : verify_checkpoints(request); };
  if (!request.watched) return by_library();
  auto keeper = guard::Keeper::open(
      {request.mount_point, request.checkpoints, request.files, AsUser::active(), request.folders});
  if (!keeper) return fail("verify-failed", keeper.error().message);
  const auto said =
      request.read_only ? read_first(request, newest_files(keeper->record())) : std::string();
  auto settled = request.read_only ? keeper->prove() : keeper->settle(!request.proven);
  if (!settled) return fail("verify-failed", settled.error().message);
  if (settled->left_alone) return by_library();
  if (!said.empty()) settled->said.push_back(said);
  for (auto* all : {&settled->torn, &settled->said})  // names are the trainer's
    for (std::string& each : *all) each = wire::printable(std::move(each));
  const fs::path path =
      settled->name.empty() ? fs::path() : checkpoints_of(request) / settled->name;
  return Verified{settled->newest, path, std::move(settled->torn), std::move(settled->said)};
}

}  // namespace spotter::act::host

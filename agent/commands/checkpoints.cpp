#include "agent/commands/commands.hpp"

#include <pwd.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <memory>

#include "agent/base/clock_text.hpp"
#include "agent/commands/report_sources.hpp"
#include "agent/config/job.hpp"
#include "agent/guard/inventory.hpp"
#include "agent/guard/place.hpp"
#include "agent/host/records.hpp"
#include "agent/host/verb.hpp"
#include "agent/io/log.hpp"
#include "agent/sweep/summary.hpp"
#include "agent/wire/ledger.hpp"
#include "agent/wire/status.hpp"

namespace spotter::command {
namespace {

using guard::Away;
using guard::bytes_text;
using guard::Contents;
using guard::Generation;
using guard::Inventory;
using Line = std::vector<std::string>;

std::string time_text(std::int64_t time) {
  return wire::to_rfc3339(wire::WallTime(std::chrono::seconds(time)));
}

// Columns two spaces apart; the last one may be long.
std::string aligned(const std::vector<Line>& lines) {
  std::vector<std::size_t> widths;
  for (const Line& line : lines) {
    widths.resize(std::max(widths.size(), line.size()));
    for (std::size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], line[i].size());
  }
  std::string text;
  for (const Line& line : lines) {
    std::string one;
    for (std::size_t i = 0; i < line.size(); ++i) {
      one += line[i];
      if (i + 1 < line.size()) one += std::string(widths[i] - line[i].size() + 2, ' ');
    }
    one.erase(one.find_last_not_of(' ') + 1);
    text += wire::printable(one) + "\n";
  }
  return text;
}

std::string kept_text(const Contents& contents) {
  if (contents.names == 0) return std::to_string(contents.copies) + " kept";
  return std::to_string(contents.copies + contents.names) + " kept, " +
         std::to_string(contents.names) + " by a second name";
}

Line marks_of(const guard::Record& record, const Generation& one) {
  Line marks;
  if (one.number == record.newest_number())
    marks.emplace_back(record.restoring ? "newest, being put back" : "newest");
  if (one.failed) marks.emplace_back("failed");
  if (record.tried == one.number) marks.emplace_back("tried");
  return marks;
}

std::string text_of(const Inventory& inventory) {
  const guard::Record& record = inventory.record;
  std::string text = (inventory.where.mount / inventory.where.directory).string() + "\n";
  std::vector<Line> lines{
      {"GENERATION", "WHEN", "STEP", "CHECKPOINT", "FILES", "SIZE", "KEPT", ""}};
  for (const Generation& each : record.generations) {
    const Contents& contents = inventory.contents.at(each.number);
    lines.push_back({std::to_string(each.number), time_text(each.time), std::to_string(each.step),
                     each.name.empty() ? "none" : each.name, std::to_string(contents.files),
                     bytes_text(contents.bytes), kept_text(contents),
                     joined(marks_of(record, each))});
  }
  text += record.generations.empty() ? "no generation yet\n" : aligned(lines);
  if (record.away.empty()) return text + "nothing is put away\n";
  lines = {{"PUT AWAY", "WHEN", "SIZE", "NAMES", "WHY"}};
  for (const Away& each : record.away)
    lines.push_back({std::to_string(each.number), time_text(each.time), bytes_text(each.bytes),
                     guard::some_of(each.names), each.why});
  return text + aligned(lines);
}

std::string json_of(const Inventory& inventory) {
  using nlohmann::ordered_json;
  const guard::Record& record = inventory.record;
  ordered_json generations = ordered_json::array(), away = ordered_json::array();
  for (const Generation& each : record.generations) {
    const Contents& contents = inventory.contents.at(each.number);
    generations.push_back({{"number", each.number},
                           {"time", each.time},
                           {"step", each.step},
                           {"checkpoint", each.name},
                           {"files", contents.files},
                           {"bytes", contents.bytes},
                           {"copies", contents.copies},
                           {"second_names", contents.names},
                           {"marks", marks_of(record, each)}});
  }
  for (const Away& each : record.away)
    away.push_back({{"number", each.number},
                    {"time", each.time},
                    {"bytes", each.bytes},
                    {"names", each.names},
                    {"why", each.why}});
  const ordered_json document = {{"storage", inventory.where.mount.string()},
                                 {"directory", inventory.where.directory},
                                 {"files", inventory.where.files},
                                 {"folders", inventory.where.folders},
                                 {"restoring", record.restoring},
                                 {"generations", std::move(generations)},
                                 {"away", std::move(away)}};
  return document.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

constexpr const char* name = "checkpoints";
constexpr std::int64_t ledger_is_young = 300;  // seconds: it is written each minute

struct CheckpointsOptions {
  std::string folder, job;
  bool json = false, force = false;
  std::optional<std::uint64_t> restore, bring_back, remove;
};

// The storage that a folder is, or lies in.
Result<fs::path> home_above(const std::string& folder) {
  std::error_code error;
  const fs::path whole = fs::canonical(folder, error);
  if (error) return failure(folder + ": " + error.message());
  for (fs::path at = whole;; at = at.parent_path()) {
    if (fs::exists(at / ".spotter", error)) return at;
    if (error) return failure((at / ".spotter").string() + ": " + error.message());
    if (at == at.root_path()) break;
  }
  return failure(whole.string() + " lies in no storage of a job: none of its folders has .spotter",
                 guard::no_record);
}

Result<fs::path> home_of(const CheckpointsOptions& options) {
  if (!options.folder.empty()) return home_above(options.folder);
  const std::string file = job_file({.job = options.job});
  if (file.empty())
    return failure(
        "there is neither job.yaml here nor /etc/spotter/job.yaml: name the storage's folder, or "
        "the job's description with --job");
  if (!is_a_file(file))
    return failure("--job " + file + ": there is no such file; of a storage name the folder");
  const auto job = TRY(read_description(file));
  return fs::path(job.home());
}

Result<act::host::User> user_of(uid_t uid) {
  const passwd* found = ::getpwuid(uid);
  if (found == nullptr) return failure("there is no user " + std::to_string(uid) + " here");
  return act::host::find_user(found->pw_name);
}

// The rights to work with. On a share, and wherever `.spotter` is not root's, root takes the
// owner's rights alone: nothing there is ours to trust.
Result<std::unique_ptr<act::host::AsUser>> rights_for(const fs::path& home) {
  if (::geteuid() != 0) return std::unique_ptr<act::host::AsUser>();
  const auto opened = io::SafeDirectory::open(home);
  const auto own = opened ? opened->look(".spotter") : tl::unexpected(opened.error());
  if (!own || own->st_uid == 0) return std::unique_ptr<act::host::AsUser>();
  return std::make_unique<act::host::AsUser>(TRY(user_of(own->st_uid)));
}

// Evidence of a trainer on another machine, whose locks are not seen here.
Result<void> refuse_running(const guard::Place& place) {
  const auto own = place.own();
  const auto text =
      own ? own->read("ledger.json", sweep::ledger_limit) : tl::unexpected(own.error());
  const auto status = own ? own->look("ledger.json") : tl::unexpected(own.error());
  const auto file = text ? wire::parse_ledger(*text) : failure("none");
  if (!status || !file || !file->ledger.running) return {};
  const std::int64_t age = std::time(nullptr) - status->st_mtime;
  if (age >= ledger_is_young) return {};
  return failure("the job's ledger, written " + std::to_string(age) +
                 " s ago, says that its trainer runs: stop it first, or, if it was killed, wait "
                 "until the ledger is five minutes old");
}

// With root's rights, on a path of which the trainer could replace a part, it could be another
// storage by now.
Result<void> refuse_redirected(const guard::Place& place) {
  if (::geteuid() != 0 || place.where().as_trainer) return {};
  const auto folder = place.folder("");
  const auto status = folder ? folder->status() : tl::unexpected(folder.error());
  if (!status || status->st_uid == 0) return {};
  const auto user = user_of(status->st_uid);
  if (!user || !act::host::may_redirect(*user, place.where().mount)) return {};
  return failure(user->name + " can replace a part of " + place.where().mount.string() +
                 ": run it as that user");
}

// "storage/training: generation 7, step 300" and what else a person reads of it.
int report(const guard::Settled& settled, const std::string& words) {
  for (const auto* all : {&settled.torn, &settled.said})
    for (const std::string& each : *all) std::printf("%s\n", wire::printable(each).c_str());
  std::printf("%s\n", words.c_str());
  return 0;
}

// Names in its words are the trainer's.
template <class T>
Result<T> printable(Result<T>&& done) {
  if (!done) done.error().message = wire::printable(done.error().message);
  return std::move(done);
}

Result<int> change(const CheckpointsOptions& options, const guard::Where& where) {
  const auto place = TRY(guard::Place::open(where));
  TRY(refuse_redirected(place));
  const auto lock = TRY(guard::lock_as_person(place));
  TRY(refuse_running(place));
  auto keeper = TRY(guard::Keeper::open(where));  // only now: a guard may have written before
  const std::string directory = (where.mount / where.directory).lexically_normal().string();
  if (options.restore) {
    const auto done = TRY(printable(keeper.go_back(*options.restore)));
    return report(done, directory + " is as it was in generation " +
                            std::to_string(*options.restore) + ", and that is generation " +
                            std::to_string(keeper.record().newest_number()) + " now");
  }
  if (options.bring_back) {
    const auto done = TRY(printable(keeper.bring_back(*options.bring_back)));
    return report(done, "what was put away as " + std::to_string(*options.bring_back) + " is in " +
                            directory +
                            " again; the next start takes up what is not torn by its format");
  }
  TRY(printable(keeper.remove_away(*options.remove, options.force)));
  std::printf("what was put away as %llu is removed\n",
              static_cast<unsigned long long>(*options.remove));
  return 0;
}

Result<int> run(const CheckpointsOptions& options) {
  const auto home = TRY(of_input(home_of(options)));
  const auto rights = TRY(behind(home.string(), rights_for(home)));
  const auto found = TRY(guard::inventory_of(home, rights != nullptr));
  if (options.restore || options.bring_back || options.remove) return change(options, found.where);
  std::fputs((options.json ? json_of(found) : text_of(found)).c_str(), stdout);
  return 0;
}

}  // namespace

void add_checkpoints(CLI::App& app, int& status) {
  auto options = std::make_shared<CheckpointsOptions>();
  auto* command = app.add_subcommand(
      name,
      "The generations of a trainer's checkpoint directory that its guard keeps, and what it put "
      "away; goes back to one, or brings something back, while no trainer runs");
  auto* folder = command->add_option("folder", options->folder,
                                     "The storage, as it is mounted, or a folder in it; else that "
                                     "of the job");
  command
      ->add_option("--job", options->job,
                   "The job's description; else job.yaml here, or the service's")
      ->excludes(folder);
  auto* json = command->add_flag("--json", options->json, "The same as JSON");
  auto* restore =
      command
          ->add_option("--restore", options->restore,
                       "Makes the directory be this generation, and puts away what is there and "
                       "differs")
          ->excludes(json);
  auto* bring = command
                    ->add_option("--bring-back", options->bring_back,
                                 "Brings what was put away below this number back to where it was")
                    ->excludes(json)
                    ->excludes(restore);
  auto* remove =
      command
          ->add_option("--delete", options->remove, "Removes what was put away below this number")
          ->excludes(json)
          ->excludes(restore)
          ->excludes(bring);
  command
      ->add_flag("--force", options->force,
                 "Removes it even if no generation has a file of its name")
      ->needs(remove);
  command->callback([options, &status] { status = io::ended(name, run(*options)); });
}

}  // namespace spotter::command

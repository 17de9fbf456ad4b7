// `spotter fetch`.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>

#include "agent/aws/s3/objects.hpp"
#include "agent/commands/commands.hpp"
#include "agent/commands/prepare_here.hpp"
#include "agent/commands/report_sources.hpp"
#include "agent/guard/record.hpp"
#include "agent/io/log.hpp"
#include "agent/report/published.hpp"
#include "agent/tier/results.hpp"
#include "agent/wire/head.hpp"
#include "agent/wire/status.hpp"

namespace spotter::command {
namespace {

using guard::bytes_text;

struct FetchOptions {
  std::vector<std::string> words;  // JOB [PATH...] FOLDER
  std::string publish;
  std::optional<std::size_t> experiment;
  std::string type = cheap_type;
};

// Files in S3 with the manifest that names them.
struct Kept {
  std::unique_ptr<bucket::Bucket> bucket;
  bucket::Manifest manifest;
};

s3::Settings of_person() { return {.environment = act::Environment::of_this_process()}; }

std::string words_of(const s3::Failure& why, const std::string& action) {
  if (why.kind != s3::Failure::Kind::Permission) return why.text();
  return why.text() + " (it takes " + action + ": `spotter iam launcher`)";
}

// None: there is no such manifest.
Result<std::optional<Kept>> kept_at(const wire::S3Location& at, const std::string& job,
                                    const std::string& manifest) {
  Kept kept{std::make_unique<bucket::Bucket>(at, job, of_person()), {}};
  auto read = TRY(kept.bucket->read(manifest));
  if (!read) return std::optional<Kept>();
  kept.manifest = *std::move(read);
  return std::optional<Kept>(std::move(kept));
}

// None: nothing is committed.
Result<std::optional<Kept>> home_of(const config::Job& job) {
  const wire::S3Location at = *job.headed_at();
  s3::Client client(of_person());
  const auto head = s3::read(client, {at.bucket, at.key + std::string(wire::head_name)});
  if (!head && head.error().kind == s3::Failure::Kind::NoSuchKey) return std::optional<Kept>();
  if (!head) return failure(words_of(head.error(), "s3:GetObject"));
  const auto parsed = TRY(behind(wire::to_url(at), wire::parse_head(head->bytes)));
  if (parsed.manifest.empty()) return std::optional<Kept>();
  auto kept = kept_at(*job.kept_at(), job.name.str(), parsed.manifest);
  if (kept && !*kept)
    return failure(wire::to_url(*job.kept_at()) + parsed.manifest +
                   " has gone: the job has written another meanwhile; fetch again");
  return kept;
}

Result<std::optional<Kept>> results_of(wire::S3Location published, const std::string& folder,
                                       const std::string& job) {
  published.key += folder + "/";
  return kept_at(published, job, tier::results_manifest());
}

// Only a machine in its zone reads a volume, and one in its network a share: it puts the files into
// S3, and ends.
Result<std::optional<Kept>> by_a_machine(const config::Job& job, const std::string& file,
                                         const std::vector<std::string>& paths,
                                         const std::string& type) {
  const auto to = job.published_in(config::fetched_folder);
  config::Sending sending{paths, *to};
  if (paths.empty()) sending.paths = {job.result(), job.checkpoints.directory, "log"};
  s3::Client client(of_person());
  const auto gone = s3::remove(client, {to->bucket, to->key + tier::results_manifest()});
  if (!gone) return failure(words_of(gone.error(), "s3:DeleteObject"));
  const auto ended = TRY(send_from_storage(file, sending, type));
  auto kept = results_of(*job.published_at(), config::fetched_folder, job.name.str());
  if (kept && !*kept) return failure(ended);
  return kept;
}

// One line that is written over, on a terminal; ten times a second.
class Progress {
 public:
  ~Progress() {
    if (shown_) std::fputs("\r\x1b[K", stderr);
  }
  void show(std::uint64_t bytes, std::uint64_t of) {
    using namespace std::chrono;
    const auto now = steady_clock::now();
    if (!is_terminal_ || now - last_ < milliseconds(100)) return;
    last_ = now;
    shown_ = true;
    std::fprintf(stderr, "\r%s of %s\x1b[K", bytes_text(bytes).c_str(), bytes_text(of).c_str());
  }

 private:
  bool is_terminal_ = ::isatty(STDERR_FILENO) != 0;
  bool shown_ = false;
  std::chrono::steady_clock::time_point last_;
};

// What lies below a place is published under plain names: history, curve, the trainer's output.
// They are the agents', and small.
Result<std::size_t> bring_published(const wire::S3Location& at, const fs::path& to) {
  s3::Client client(of_person());
  const auto listed = s3::list(client, at);
  if (!listed) return failure(words_of(listed.error(), "s3:ListBucket"));
  std::size_t files = 0;
  for (const wire::ListedObject& object : listed->objects) {
    const std::string path = object.key.substr(at.key.size());
    const auto name = report::parse_published_name(path);
    const bool own = !name.experiment && name.kind != report::PublishedName::Kind::Other;
    if (!own || !bucket::is_path(path)) continue;
    const auto content = s3::read(client, {at.bucket, object.key});
    if (!content && content.error().kind == s3::Failure::Kind::NoSuchKey) continue;
    if (!content) return failure(words_of(content.error(), "s3:GetObject"));
    std::error_code error;
    fs::create_directories((to / path).parent_path(), error);
    std::ofstream file(to / path, std::ios::binary | std::ios::trunc);
    file << content->bytes;
    if (!file.flush()) return failure("cannot write " + (to / path).string());
    ++files;
  }
  return files;
}

// Sentences that say why there is nothing, and what to do.
std::string nothing(const config::Job* job, const std::string& name) {
  if (job != nullptr && !job->publish && !job->storage.in_bucket())
    return job->name.str() +
           " has no place in S3 that files could be fetched from: add `publish: "
           "s3://bucket/prefix/` to its description (and run the commands of `spotter iam roles` "
           "again)" +
           (job->storage.share && !job->launch
                ? ", or copy them from " + config::describe(job->storage)
                : ", and fetch it again");
  if (job != nullptr && job->storage.in_bucket())
    return "nothing of " + name + " is in " + wire::to_url(*job->kept_at()) +
           " yet: it comes with the first checkpoint";
  return "the result of " + name +
         " is not in S3 yet: the agent puts it there when the trainer has finished (`spotter "
         "status --job " +
         name + "` says how far it is)";
}

int say(const tier::Arrived& arrived, std::size_t published, const fs::path& to) {
  for (const std::string& torn : arrived.torn) io::complain("fetch", torn);
  std::string words = std::to_string(arrived.files) +
                      (arrived.files == 1 ? " file, " : " files, ") + bytes_text(arrived.bytes) +
                      " into " + to.string();
  if (arrived.there > 0) words += "; " + std::to_string(arrived.there) + " were there already";
  if (published > 0)
    words += "; " + std::to_string(published) + " of the job's own records in " +
             (to / "spotter").string();
  std::printf("%s\n", words.c_str());
  constexpr std::size_t most_named = 20;
  for (std::size_t i = 0; i < arrived.names.size() && i < most_named; ++i)
    std::printf("  %s\n", wire::printable(arrived.names[i]).c_str());
  if (arrived.names.size() > most_named)
    std::printf("  and %zu more\n", arrived.names.size() - most_named);
  return arrived.torn.empty() ? 0 : 1;
}

// The rest of a file that was interrupted goes with us.
std::string coming;  // its path
void interrupted(int signal) {
  ::unlink(coming.c_str());
  ::_exit(128 + signal);
}

Result<int> fetch(const FetchOptions& options) {
  if (options.words.size() < 2)
    return mistake("name the job and a folder: `spotter fetch JOB ./out`");
  const fs::path to = options.words.back();
  const std::vector<std::string> paths(options.words.begin() + 1, options.words.end() - 1);
  // A trainer may name its files as it likes: .profile, .ssh/authorized_keys, .git/config.
  const char* home = std::getenv("HOME");
  std::error_code none;
  const fs::path at = fs::absolute(to);
  const fs::path way = home != nullptr && *home != '\0' ? fs::relative(home, at, none) : fs::path();
  const bool has_home = !none && !way.empty() && *way.begin() != "..";
  const bool has_git = fs::exists(at / ".git", none);
  if (at.lexically_normal() == "/" || has_home || has_git)
    return mistake("files of a job do not go into " + to.string() + " itself" +
                   (has_git ? ", where git would obey some" : "") +
                   ": name a folder of their own, such as ./out");
  auto place = TRY(of_input(place_of({options.words.front(), {}, options.publish})));
  if (place.job && place.job->sweep && !options.experiment)
    return mistake(place.job->name.str() +
                   " is a sweep: say which of its experiments with --experiment");
  if (place.job && options.experiment)
    place.job->experiment = config::Experiment{*options.experiment, {}};
  config::Job* job = place.job ? &*place.job : nullptr;
  const std::string& name = place.name;
  auto published = place.published;
  if (published && options.experiment) published->key += std::to_string(*options.experiment) + "/";
  auto kept = job != nullptr && job->storage.in_bucket() ? home_of(*job) : std::nullopt;
  if (kept && !*kept && published) kept = results_of(*published, config::results_folder, name);
  const bool has_all = kept && *kept && tier::names_all((**kept).manifest, paths);
  const bool elsewhere = job != nullptr && !job->storage.in_bucket() && job->launch && job->publish;
  if (kept && !has_all && elsewhere && !options.experiment)
    kept = by_a_machine(*job, place.file, paths, options.type);
  if (!kept) return tl::unexpected(kept.error());
  if (!*kept) return failure(nothing(job, name));
  coming = tier::coming_file(to);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) std::signal(signal, interrupted);
  Progress progress;
  const auto arrived = TRY(tier::bring_files(
      *(*kept)->bucket, (*kept)->manifest,
      {paths, to, [&](std::uint64_t bytes, std::uint64_t of) { progress.show(bytes, of); }}));
  std::size_t records = 0;
  if (published && paths.empty()) records = TRY(bring_published(*published, to / "spotter"));
  return say(arrived, records, to);
}

}  // namespace

void add_fetch(CLI::App& app, int& status) {
  auto options = std::make_shared<FetchOptions>();
  auto* command = app.add_subcommand(
      "fetch",
      "Brings a job's files into a folder here: its result, and of a job that lives in a bucket "
      "its checkpoints, too");
  command
      ->add_option("words", options->words,
                   "The job's name or description, then files or folders of it (none: all), "
                   "then the folder here")
      ->option_text("JOB [PATH...] FOLDER")
      ->required();
  command->add_option("--experiment", options->experiment, "Of a sweep: the index");
  command
      ->add_option("--instance-type", options->type,
                   "Of the machine that reads a volume or a share, where the files are not in S3 "
                   "yet")
      ->capture_default_str();
  command->add_option("--publish", options->publish,
                      "The place in S3 that the job's description has as publish");
  command->callback([options, &status] { status = io::ended("fetch", fetch(*options)); });
}

}  // namespace spotter::command

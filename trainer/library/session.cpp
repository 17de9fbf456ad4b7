#include "trainer/library/session.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <system_error>

#include "trainer/library/files.hpp"

namespace spotter::checkpoint {
namespace {

fs::path resolved(const fs::path& path) {
  std::error_code failed;
  const fs::path absolute = fs::absolute(path, failed).lexically_normal();
  const fs::path clean = absolute.has_filename() ? absolute : absolute.parent_path();
  const fs::path real = fs::weakly_canonical(clean, failed);
  return failed ? clean : real;
}

bool is_below(const fs::path& place, const std::string& folder) {
  if (folder.empty()) return false;
  const fs::path above = resolved(folder);
  return std::mismatch(above.begin(), above.end(), place.begin(), place.end()).first == above.end();
}

// Fails where `place` is neither below $SPOTTER_STORAGE nor below $SPOTTER_CHECKPOINTS, and says
// what to do: a checkpoint there would be lost with the machine, and must not be called durable.
// Links are followed, and it need not exist yet. Without $SPOTTER_CHECKPOINTS there is no job, and
// each place is as good.
Result<void> is_on_storage(const fs::path& place) {
  const std::string checkpoints = environment("SPOTTER_CHECKPOINTS");
  const std::string storage = environment("SPOTTER_STORAGE");
  if (checkpoints.empty()) return {};
  const fs::path real = resolved(place);
  if (is_below(real, checkpoints) || is_below(real, storage)) return {};
  return failure("checkpoints in " + real.string() +
                 " would be lost with this machine: that is outside the job's storage, " +
                 (storage.empty() ? checkpoints : storage) +
                 "\n  Name no directory, which means $SPOTTER_CHECKPOINTS (" + checkpoints +
                 "), or one below it or below $SPOTTER_STORAGE.");
}

constexpr Duration kLookEvery = std::chrono::milliseconds(50);
constexpr Duration kLongestCopy = std::chrono::minutes(1);  // of the last one, at the end
constexpr Duration kUsual = std::chrono::minutes(10);       // what a crash may cost by default

Duration usual_interval() {
  const std::string given = environment("SPOTTER_CHECKPOINT_EVERY");
  char* end = nullptr;
  const double seconds = std::strtod(given.c_str(), &end);
  return given.empty() || *end != '\0' ? kUsual : interval(seconds).value_or(kUsual);
}

}  // namespace

Session::Session(const SessionOptions& options)
    : link_(Link::from_environment()),
      advised_(!options.every),
      resumed_later_(options.resumed_later),
      pace_(options.every ? *options.every : usual_interval(), boot_now()) {}

void Session::begin_save() {
  if (!begun_) begun_ = boot_now();
}

bool Session::stopping() const {
  const std::scoped_lock lock(mutex_);
  return pace_.stopping();
}

Result<void> Session::begin(const SessionOptions& options) {
  const fs::path directory =
      options.directory.empty() ? fs::path(environment("SPOTTER_CHECKPOINTS")) : options.directory;
  if (directory.empty())
    return failure("where do checkpoints go? Name a directory or set SPOTTER_CHECKPOINTS");
  TRY(is_on_storage(directory));
  places_ = options.faster.value_or(paths_in(environment("SPOTTER_CHECKPOINTS_FASTER")));
  places_.push_back(directory);
  Saver::Settings settings;
  for (const auto& place : places_) settings.places.push_back({place, {.last = 1}});
  settings.places.back().retention = options.retention;
  TRY(open_mirror(options));
  settings.durable = [this](const Durable& durable) { became_durable(durable); };
  settings.trouble = [this](const std::string& trouble) { say(trouble); };
  saver_ = TRY(Saver::open(std::move(settings)));
  return {};
}

Result<void> Session::open_mirror(const SessionOptions& options) {
  const std::string place = options.mirror.value_or(environment("SPOTTER_CHECKPOINTS_S3"));
  if (place.empty()) return {};
  if (!options.open_mirror) return failure("this program knows no copies far away: " + place);
  const auto trouble = [this](const std::string& what) { say(what); };
  mirror_ = TRY(options.open_mirror({place, options.retention, trouble}));
  return {};
}

// Prefers the mirror's if it is newer, as when a volume was lost, or left in another zone.
Result<Restored> Session::or_from_mirror(Result<Restored> local) {
  if (!mirror_ || (!local && wire::is_newer(local.error()))) return local;
  Restored result = local ? std::move(*local) : Restored{};
  const auto here = result.newest ? std::optional(result.newest->checkpoint.step) : std::nullopt;
  const auto torn_here = result.torn.size();
  auto far = mirror_->newest(here, result.torn);
  if (far && *far) {
    if (!local) say("going on from the copy far away: " + local.error().message);
    result.newest = std::move(**far);
    return result;
  }
  if (!local) return local;
  // Without an answer from there, starting from scratch would be wrong.
  if (!far && (!here || wire::is_newer(far.error()))) return tl::unexpected(far.error());
  if (!here && result.torn.size() > torn_here) {
    const auto& newest = result.torn[torn_here];
    return failure("there are copies of checkpoints, but all are torn: " + newest.path.string() +
                   ": " + newest.reason +
                   "\n  To start from scratch, remove them, or name another place.");
  }
  if (!far) say("it is not known whether a newer checkpoint exists: " + far.error().message);
  const bool durable = here && result.newest->checkpoint.path.parent_path() == places_.back();
  if (durable) mirror_->offer(result.newest->checkpoint.path, *here);
  return result;
}

Result<Restored> Session::restore() {
  auto restored = TRY(or_from_mirror(checkpoint::restore(places_)));
  restored_bytes_ = 0;
  if (restored.newest) {
    const auto& found = restored.newest->checkpoint;
    if (found.path.parent_path() == places_.back()) {
      restored_ = {found.step, found.path};
    }
    for (const auto& part : restored.newest->parts) restored_bytes_ += part.bytes.size();
  }
  restored_once_ = true;
  if (resumed_later_) return restored;
  link_.ready();
  link_.resumed(restored.newest ? restored.newest->checkpoint.step : 0);
  return restored;
}

// Looks for notice, stop signal and requests; not at every step for files, as steps may be short.
void Session::look(Instant at) {
  if (looked_ && at - *looked_ < kLookEvery && (!stop_requested() || stopping())) return;
  looked_ = at;
  notice_ = link_.notice();
  const auto advice = link_.advice();
  const std::scoped_lock lock(mutex_);
  if (advice.every && advised_) pace_.every(*advice.every);
  if (advice.wanted) pace_.wanted(*advice.wanted);
  if (notice_) {
    pace_.stop(at, notice_->gone_by);
  } else if (stop_requested()) {
    pace_.stop(at, std::nullopt);
  }
}

bool Session::should_checkpoint() {
  const Instant at = boot_now();
  look(at);
  if (restored_bytes_ > 0) saver_->reserve(std::exchange(restored_bytes_, 0));
  const std::scoped_lock lock(mutex_);
  pace_.stepped(at);
  const bool due = pace_.checkpoint_due(at);
  begun_ = due ? std::optional(at) : std::nullopt;
  return due;
}

bool Session::should_stop() {
  const Instant at = boot_now();
  look(at);
  const std::scoped_lock lock(mutex_);
  return pace_.stop_due(at);
}

std::optional<std::chrono::nanoseconds> Session::deadline() {
  const Instant at = boot_now();
  look(at);
  if (!notice_ || !notice_->deadline) return std::nullopt;
  return std::max(Duration::zero(), *notice_->deadline - at);
}

bool Session::has_time(Duration needed) {
  const Instant at = boot_now();
  look(at);
  const std::scoped_lock lock(mutex_);
  return pace_.has_time(at, needed);
}

std::optional<Saved> Session::settle(std::uint64_t step, Instant begun) {
  if (!stopping()) return std::nullopt;
  const bool safe = is_safe(step);
  const auto before = saver_->writing();
  const std::scoped_lock lock(mutex_);
  if (safe) {
    pace_.covered(begun);
    return Saved::Accepted;
  }
  if (pace_.can_finish(begun, before)) return std::nullopt;
  pace_.skipped();
  return Saved::Skipped;
}

Result<char*> Session::place(std::uint64_t step, std::uint64_t bytes) {
  begin_save();
  const auto settled = settle(step, *begun_);
  settled_ = {step, settled};
  if (settled) return nullptr;
  if (stopping()) saver_->drop_waiting();  // this one is newer
  return saver_->place(bytes);
}

Result<Saved> Session::save(std::uint64_t step, std::span<const Source> sources,
                            const nlohmann::json& meta, std::optional<double> metric) {
  const Instant begun = std::exchange(begun_, std::nullopt).value_or(boot_now());
  const auto before_it = std::exchange(settled_, std::nullopt);
  const bool known = before_it && before_it->first == step;
  if (const auto settled = known ? before_it->second : settle(step, begun)) return *settled;
  const bool last_words = stopping();
  if (auto before = saver_->failed(); !before) {
    if (!last_words) return tl::unexpected(before.error());
    say("a checkpoint before this one was lost: " + before.error().message);
  }
  if (last_words) saver_->drop_waiting();
  TRY(saver_->save(step, sources, meta, metric, boot_now() - begun));
  accepted_step_ = step;
  const std::scoped_lock lock(mutex_);
  pace_.saved(begun, boot_now() - begun);
  return Saved::Accepted;
}

void Session::resumed(std::uint64_t step) {
  link_.ready();
  link_.resumed(step);
  if (mirror_ && !restored_once_) {
    say("checkpoints in a format of its own are not copied to $SPOTTER_CHECKPOINTS_S3, "
        "nor looked for there; checkpoints.s3 of job.yaml, beside checkpoints.folders, does both");
  }
}

bool Session::can_save() {
  const Instant begun = begun_.value_or(boot_now());
  const std::scoped_lock lock(mutex_);
  if (!pace_.stopping() || pace_.can_finish(begun, 0)) return true;
  pace_.skipped();
  return false;
}

Result<void> Session::saved(std::uint64_t step, const fs::path& path) {
  const Instant begun = std::exchange(begun_, std::nullopt).value_or(boot_now());
  TRY(is_on_storage(path));
  TRY(is_writer());
  const auto bytes = TRY(make_durable(path));
  const Duration stall = boot_now() - begun;
  {
    const std::scoped_lock lock(mutex_);
    if (durable_step_ == step) {  // there was nothing to save, or not much
      pace_.covered(begun);
      return {};
    }
    pace_.saved(begun, stall);
    durable_step_ = step;
  }
  link_.checkpointed(path, step, stall, bytes);
  return {};
}

bool Session::is_safe(std::uint64_t step) const {
  if (accepted_step_ != step) return !accepted_step_ && restored_ && restored_->step == step;
  // The order matters: a copy that is no longer pending was reported, or has failed.
  return saver_->pending() > 0 || durable_step() == step;
}

void Session::became_durable(const Durable& durable) {
  {
    const std::scoped_lock lock(mutex_);
    pace_.wrote(durable.place, durable.took);
    if (durable.outlives) durable_step_ = durable.step;
  }
  if (!durable.outlives) return;
  link_.checkpointed(durable.path, durable.step, durable.stall);
  if (mirror_) mirror_->offer(durable.path, durable.step);
}

void Session::say(const std::string& trouble) {
  link_.status(trouble);
  std::fprintf(stderr, "spotter: %s\n", trouble.c_str());
}

std::optional<std::uint64_t> Session::durable_step() const {
  const std::scoped_lock lock(mutex_);
  return durable_step_;
}

Result<void> Session::leave() {
  auto flushed = saver_->flush();
  if (mirror_ && notice_ && notice_->gone_by) mirror_->wait(*notice_->gone_by - kExit - boot_now());
  const std::scoped_lock lock(mutex_);
  // Stopped before the first save: reports again what is durable.
  if (!durable_step_ && restored_) link_.checkpointed(restored_->path, restored_->step);
  if (const auto trained = pace_.trained_in_window()) link_.window_trained(*trained);
  link_.send_waiting();
  return flushed;
}

Result<void> Session::finished() {
  auto flushed = saver_->flush();
  if (mirror_) mirror_->wait(kLongestCopy);
  link_.send_waiting();
  link_.finished();
  return flushed;
}

Result<std::unique_ptr<Session>> Session::open(const SessionOptions& options) {
  std::unique_ptr<Session> session(new Session(options));
  TRY(session->begin(options));
  return session;
}

Duration Longest::get() const { return *std::max_element(ring_.begin(), ring_.end()); }

void Pace::stepped(Instant now) {
  if (last_step_) step_.add(now - *last_step_);
  last_step_ = now;
}

void Pace::stop(Instant now, std::optional<Instant> gone_by) {
  if (!stopping_) stopped_at_ = now;
  stopping_ = true;
  gone_by_ = gone_by;
}

void Pace::covered(Instant begun) {
  if (stopping_) {
    finished_ = finished_ || !gone_by_ || is_last(begun);
    secured_ = true;
    last_begun_ = begun;
  }
  last_save_ = begun;
}

void Pace::saved(Instant begun, Duration stall) {
  covered(begun);
  if (stopping_ && !finished_) stalled_ += stall;
  stall_.add(stall);
  last_step_.reset();  // the next step's duration must not include the stall
}

void Pace::wrote(std::size_t place, Duration took) {
  if (write_.size() <= place) write_.resize(place + 1);
  write_[place].add(took);
}

Duration Pace::writing() const {
  Duration all{};
  for (const auto& place : write_) all += place.get();
  return all;
}

Instant Pace::last_moment() const {
  const Duration saving = secured_ ? estimate() * 6 / 5 : estimate() * 3 / 2;
  return *gone_by_ - saving - step_.get() - kExit;
}

bool Pace::checkpoint_due(Instant now) const {
  if (finished_) return false;
  if (stopping_) {
    if (!gone_by_ || is_last(now)) return true;
    // Only if it does not delay the last one.
    return !secured_ && (write_.empty() || now + estimate() * 2 < last_moment());
  }
  return (wanted_ && *wanted_ > last_save_) ||
         (every_ > Duration::zero() && now - last_save_ >= every_);
}

bool Pace::stop_due(Instant now) const {
  return stopping_ && (finished_ || (gone_by_ && now >= *gone_by_ - kExit));
}

bool Pace::has_time(Instant now, Duration needed) const {
  if (!stopping_) return true;
  return gone_by_ && !finished_ && now + needed < last_moment();
}

bool Pace::can_finish(Instant now, std::size_t pending) const {
  const auto needed = stall_.get() + writing() * static_cast<Duration::rep>(pending + 1);
  return !gone_by_ || now + needed < *gone_by_;
}

std::optional<Duration> Pace::trained_in_window() const {
  if (!stopping_ || !gone_by_ || !last_begun_) return std::nullopt;
  return std::max(Duration::zero(), *last_begun_ - stopped_at_ - stalled_);
}

}  // namespace spotter::checkpoint

#include "agent/service/observe/observers.hpp"

#include <spdlog/spdlog.h>
#include <systemd/sd-daemon.h>

#include <algorithm>
#include <cmath>
#include <fstream>

#include "agent/config/run.hpp"
#include "agent/decide/describe.hpp"
#include "agent/io/kernel.hpp"
#include "agent/io/log.hpp"
#include "agent/launch/watch_mark.hpp"
#include "agent/supervise/output.hpp"
#include "agent/wire/events.hpp"
#include "agent/wire/metric_log.hpp"
#include "agent/wire/status.hpp"

namespace spotter {

namespace {

using decide::Surrender;
using spdlog::level::level_enum;
using wire::event;
using wire::EventKind;
using Kind = std::optional<EventKind>;

template <class Why, std::size_t N>
consteval std::array<Kind, N> kinds_of(const std::array<decide::Said<Why>, N>& all) {
  std::array<Kind, N> kinds;
  for (std::size_t i = 0; i < N; ++i)
    if (!all[i].event.empty()) kinds[i] = event(all[i].event);
  return kinds;
}

template <const auto& table>
Kind kind_in(auto why) {
  static constexpr auto kinds = kinds_of(table);
  return kinds.at(static_cast<std::size_t>(why));
}

// None: the stage needs no explanation.
Kind kind_of(const decide::State& state) {
  constexpr std::pair<std::string_view, EventKind> kinds[] = {
      {"training", event("training")},
      {"released", event("released")},
      {"finished", event("finished")},
      {"snapshotting", event("volume-moving")},
      {"giving-back", event("instance-given-back")},
      {"promoting", event("volume-moved")}};
  if (const auto* it = std::get_if<decide::Blocked>(&state.stage))
    return kind_in<decide::block_words>(it->why);
  if (const auto* it = std::get_if<decide::Waiting>(&state.stage))
    return kind_in<decide::wait_words>(it->why);
  if (const auto* it = std::get_if<decide::Stopping>(&state.stage); it != nullptr && it->kills > 0)
    return event("trainer-killed");
  if (std::holds_alternative<decide::CancellingFleet>(state.stage) && state.facts.tidying.data_left)
    return event("data-left");
  const auto* found =
      std::ranges::find(kinds, decide::name(state.stage), [](const auto& it) { return it.first; });
  return found == std::end(kinds) ? Kind() : found->second;
}

void say(const Kind& kind, level_enum level, const std::string& words) {
  if (kind)
    io::note(*kind, level, "{}", words);
  else
    spdlog::log(level, "{}", words);
}

void record_happening(const decide::Event& happened) {
  if (const auto* notice = std::get_if<decide::NoticeSeen>(&happened.what)) {
    const double left = std::chrono::duration<double>(notice->deadline - happened.at).count();
    io::note(event("interruption-notice"), level_enum::warn, "{}: the instance ends in {:.1f} s",
             notice->held                  ? "its Auto Scaling group takes it out"
             : notice->leeway.count() != 0 ? "its capacity block ends"
                                           : "interruption notice",
             left);
  } else if (std::holds_alternative<decide::NoticeWithdrawn>(happened.what)) {
    io::note(event("notice-withdrawn"), level_enum::info, "the interruption notice was withdrawn");
  } else if (std::holds_alternative<decide::RebalanceRecommended>(happened.what)) {
    io::note(event("rebalance-recommendation"), level_enum::info,
             "a rebalance recommendation: mostly they lead to nothing; training goes on");
  } else if (const auto* resumed = std::get_if<decide::TrainerResumed>(&happened.what)) {
    io::note(event("trainer-resumed"), level_enum::info, "the trainer goes on from step {}",
             resumed->step);
  } else if (const auto* made = std::get_if<decide::CheckpointMade>(&happened.what)) {
    io::note(event("checkpoint-durable"), level_enum::info, "checkpoint of {} {} is durable",
             made->write ? "write" : "step", made->step);
  }
}

void set_fields(const decide::State& state) {
  const decide::Facts& facts = state.facts;
  io::set_log_field("SPOTTER_STAGE", decide::name(state.stage));
  io::set_log_field("SPOTTER_STEP",
                    facts.trainer.step < 0 ? "" : std::to_string(facts.trainer.step));
  io::set_log_field("INSTANCE_ID", facts.identity.instance.view());
  io::set_log_field("VOLUME_ID", facts.holding.volume.view());
  io::set_log_field("SPOTTER_ZONE", facts.identity.zone.view());
}

using namespace std::chrono_literals;

constexpr std::chrono::seconds every = 120s;            // the child is half of the cost
constexpr std::chrono::milliseconds output_every = 5s;  // S3 asks 0.005 $ for a thousand puts
constexpr std::chrono::milliseconds together = 500ms;   // batches entries of one moment
constexpr std::chrono::milliseconds patience = 30s;

// Entries that must be published at once.
bool is_news(const wire::HistoryEntry& entry) {
  constexpr std::array<std::string_view, 5> kinds = {"checkpoint", "account", "price", "problem",
                                                     "volume"};
  return std::ranges::find(kinds, entry.what) == kinds.end();
}

std::string last_line(std::string text) {
  while (text.ends_with('\n')) text.pop_back();
  return text.substr(text.rfind('\n') + 1);
}

// Each piece is a file that is replaced, which changes its folder.
fs::file_time_type change_of_output(const std::string& run_directory) {
  std::error_code none;
  const auto changed = fs::last_write_time(run_directory + "/" + supervise::output_name, none);
  return none ? fs::file_time_type() : changed;
}

constexpr std::size_t limit = 1U << 20;
// A loss may be reported thousands of times a second.
constexpr std::chrono::milliseconds between_writes(200);

constexpr Duration read_every{120'000};  // as a status is published
constexpr Duration read_limit{20'000};

std::optional<std::size_t> index_of(const config::Job& job) {
  return job.experiment ? std::optional(job.experiment->index) : std::nullopt;
}

// True on the one of several machines that has the storage, or that needs a person.
bool represents_job(const decide::State& state) {
  const decide::Facts& facts = state.facts;
  const auto is = [&](auto stage) { return std::holds_alternative<decltype(stage)>(state.stage); };
  const bool releases = is(decide::Unmounting{}) || is(decide::FinalSnapshot{}) ||
                        is(decide::ReleasingEpoch{}) || is(decide::Detaching{}) ||
                        is(decide::Releasing{}) || is(decide::ReleasingData{});
  return facts.holding.mounted || facts.trainer.running || releases || facts.exit.done ||
         is(decide::Blocked{}) || facts.exit.surrender != decide::Surrender::None;
}

Monitor::Sources with_outlook(Monitor::Sources sources, const Status& status) {
  sources.outlook = [&status] { return status.outlook() ? &*status.outlook() : nullptr; };
  return sources;
}

}  // namespace

void Journal::remember_boot(const fs::path& printed, const fs::path& run_directory) {
  constexpr std::streamoff most = 64 << 10;
  const auto remembered = run_directory / "boot-remembered";
  std::ifstream file(printed, std::ios::binary | std::ios::ate);
  if (!file || fs::exists(remembered)) return;
  const std::streamoff size = file.tellg();
  file.seekg(std::max<std::streamoff>(0, size - most));
  std::string line, lines;
  if (size > most) std::getline(file, line);  // the rest of a line
  while (std::getline(file, line)) lines += "boot: " + line + "\n";
  io::put_log_back(std::move(lines));
  (void)supervise::RunDirectory(run_directory).replace("boot-remembered", "");
}

// Before the storage is released, so that the history on it has the reason, too.
void Journal::record_surrender(Surrender why) {
  if (why == surrender_) return;
  surrender_ = why;
  if (why == Surrender::None) return;
  said_ = "gave up: " + std::string(decide::words(why));
  say(kind_in<decide::surrender_words>(why), level_enum::err, said_);
  sd_notifyf(0, "STATUS=%s", said_.c_str());
}

void Journal::on_event(const decide::Event& event, const decide::State& state,
                       const decide::Policy& policy, bool moved) {
  set_fields(state);
  record_happening(event);
  record_surrender(state.facts.exit.surrender);
  const std::string words = decide::describe(state, policy);
  // A wait repeats the same look every second: not logged again.
  if (words.empty() || words == said_) return;
  const bool blocked = std::holds_alternative<decide::Blocked>(state.stage);
  // Checkpoints have lines of their own: this text is for the status only.
  const bool trains_on = !moved && std::holds_alternative<decide::Training>(state.stage);
  const Kind kind = kind_of(state);
  if (!trains_on) say(kind, blocked ? level_enum::err : level_enum::info, words);
  sd_notifyf(0, "STATUS=%s", words.c_str());
  said_ = words;
}

Publisher::Publisher(asio::io_context& context, std::string run_directory, const config::Job& job,
                     const HistoryFile& history)
    : run_directory_(std::move(run_directory)),
      job_(job.name.str()),
      place_(*job.published_at()),
      history_(history),
      next_(context) {
  asio::co_spawn(context, work(), io::rethrow);
}

void Publisher::on_message(const wire::TrainerMessage& message) {
  metrics_.on_message(message, std::chrono::system_clock::now());
}

void Publisher::publish_status(bool now) {
  last_word_ = (last_word_ || speaks_) && !now;
  speaks_ = now;
}

void Publisher::on_entry(const wire::HistoryEntry& entry) {
  if (!is_news(entry)) return;
  if (!soon_ && !busy_) next_.expires_after(together);  // cancels the current wait
  soon_ = true;
}

asio::awaitable<void> Publisher::work() {
  auto due = std::chrono::steady_clock::now() + every;
  for (;;) {
    next_.expires_after(soon_ ? together : output_every);
    boost::system::error_code woken;
    co_await next_.async_wait(asio::redirect_error(asio::use_awaitable, woken));
    if (woken) continue;
    const auto now = std::chrono::steady_clock::now();
    const bool whole = std::exchange(soon_, false) || now >= due;
    if (!whole && (failing_ || !has_output())) continue;
    if (whole) due = now + every;
    busy_ = true;
    auto publishing = whole ? publish(patience) : publish_output(patience);
    co_await std::move(publishing);
    busy_ = false;
  }
}

bool Publisher::has_output() const { return change_of_output(run_directory_) != output_sent_; }

asio::awaitable<void> Publisher::publish_output(std::chrono::milliseconds limit) {
  if (history_.segment().empty()) co_return;
  const auto change = change_of_output(run_directory_);
  const io::ProcessResult result = co_await io::run(request(limit));
  if (judge(result)) output_sent_ = change;
}

io::ProcessRequest Publisher::request(std::chrono::milliseconds limit) const {
  io::ProcessRequest request;
  request.argv = {command::own_program(),
                  "publish",
                  "--to",
                  wire::to_url(place_),
                  "--from",
                  run_directory_,
                  "--name",
                  history_.segment(),
                  "--output",
                  "--job",
                  job_,
                  "--patience",
                  std::to_string((limit * 4 / 5).count())};
  request.timeout = limit;
  request.kill_grace = 0ms;
  return request;
}

io::ProcessRequest Publisher::request(const act::Metrics::News& news,
                                      std::chrono::milliseconds limit) const {
  io::ProcessRequest request = this->request(limit);
  if (history_.size() != history_sent_) request.argv.emplace_back("--history");
  if (speaks_ || last_word_) request.argv.emplace_back("--status");
  if (news.resumed)
    request.argv.insert(request.argv.end(), {"--resumed", std::to_string(*news.resumed)});
  request.stdin_text = to_lines(news.curve);
  return request;
}

asio::awaitable<void> Publisher::publish(std::chrono::milliseconds limit) {
  if (history_.segment().empty()) co_return;
  if (sending_) metrics_.put_back(*std::move(sending_));  // cut off by end()
  act::Metrics::News& news = sending_.emplace(metrics_.take());
  const std::size_t size = history_.size();
  const bool last_word = last_word_;
  const auto output = change_of_output(run_directory_);
  const io::ProcessResult result = co_await io::run(request(news, limit));
  if (judge(result)) {
    history_sent_ = size;
    output_sent_ = output;
    last_word_ = last_word_ && !last_word;
  } else {
    metrics_.put_back(std::move(news));
  }
  sending_.reset();
}

// Logs a failure once, until it works again.
bool Publisher::judge(const io::ProcessResult& result) {
  const bool done = result.end == io::ProcessResult::End::Exited && result.status == 0;
  if (done == !failing_) return done;
  failing_ = !done;
  if (done) {
    spdlog::info("{} can be written again", wire::to_url(place_));
    return true;
  }
  const bool late = result.end == io::ProcessResult::End::TimedOut;
  io::note(wire::event("not-published"), spdlog::level::warn,
           "nothing can be published at {}: {}; the job goes on", wire::to_url(place_),
           late ? "S3 does not answer in time" : last_line(result.errors));
  return false;
}

// The agent's own context has ended, so nothing else runs meanwhile.
void Publisher::end(std::chrono::milliseconds at_most) {
  asio::io_context last(1);
  asio::co_spawn(last, publish(at_most), asio::detached);
  last.run_for(at_most + 1s);
}

BestValues::BestValues(asio::io_context& context, const config::Job& job, std::string run_directory)
    : path_(std::move(run_directory) + "/" + supervise::values_name), next_(context) {
  if (!job.checkpoints.keep_best) return;
  metric_ = job.checkpoints.keep_best->metric;
  as_in_log_ = wire::name_of_column(*metric_, {});
  const auto text = io::read_file(path_, limit);
  const auto before = text ? supervise::parse_values(*text) : failure("none");
  if (before) values_ = *before;
}

void BestValues::on_message(const wire::TrainerMessage& message,
                            std::chrono::system_clock::time_point now) {
  if (!metric_ || !message.progress) return;
  const wire::Progress& said = *message.progress;
  const wire::CurvePoint point{said.step, said.epoch, said.loss, said.accuracy, 0, said.metrics};
  auto value = wire::metric_of(point, *metric_);
  if (!value) value = wire::metric_of(point, as_in_log_);
  if (!value || !std::isfinite(*value)) return;
  values_.add({std::chrono::duration<double>(now.time_since_epoch()).count(), said.step, *value});
  unwritten_ = true;
  if (waits_) return;
  write();
  waits_ = true;
  next_.expires_after(between_writes);
  next_.async_wait([this](const boost::system::error_code& cancelled) {
    if (cancelled) return;
    waits_ = false;
    if (unwritten_) write();
  });
}

// The file need not survive a power failure: the next run of the trainer has values of its own.
void BestValues::write() {
  const auto done = io::replace_file(path_, to_json(values_), supervise::shown_mode);
  unwritten_ = false;
  const std::string trouble = done ? std::string() : done.error().message();
  if (!trouble.empty() && trouble != last_trouble_)
    spdlog::warn("cannot write {}: {}; the best checkpoint may not be kept", path_, trouble);
  last_trouble_ = trouble;
}

void WatcherSays::on_event(const decide::State& state, Time now) {
  const decide::Facts& facts = state.facts;
  if (!wanted_ || asking_ || now < next_ || !facts.trainer.running) return;
  if (facts.identity.fleet.kind == FleetKind::None) return;
  asking_ = true;
  next_ = now + read_every;
  asio::co_spawn(context_, ask(facts.identity.fleet), io::rethrow);
}

// The words said before stand while AWS does not answer.
asio::awaitable<void> WatcherSays::ask(Fleet fleet) {
  const auto tag = co_await cloud_.watchers_tag(fleet, read_limit);
  asking_ = false;
  if (!tag) co_return;
  const auto now = std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
  const std::string words = launch::words_of_watcher(*tag, now);
  say_(words.empty() ? "nobody watches: no on-demand instance comes" : words);
}

Observers::Observers(asio::io_context& context, const config::Job& job,
                     const decide::Policy& policy, const std::string& run_directory,
                     Monitor::Sources sources)
    : policy_(policy),
      state_(sources.state),
      status_(run_directory + "/status.json", job),
      monitor_(context, job, with_outlook(std::move(sources), status_)),
      best_values_(context, job, run_directory),
      history_({run_directory, job.volumes_owner(), index_of(job), command::host_name(),
                io::wall_clock() - std::chrono::duration<double>(io::boot_time()).count(),
                io::wall_clock}) {
  if (!job.published_at()) return;
  publisher_ = std::make_unique<Publisher>(context, run_directory, job, history_.file());
  history_.add_sink([this](const wire::HistoryEntry& entry) { publisher_->on_entry(entry); });
}

void Observers::reach_aws(asio::io_context& context, io::HttpClient& http, act::AwsClient& client,
                          act::Cloud& cloud, const config::Job& job) {
  notifier_ = std::make_unique<Notifier>(context, http, client, job);
  watcher_says_ = std::make_unique<WatcherSays>(
      context, cloud, job, [this](std::string words) { status_.say("watcher", std::move(words)); });
}

void Observers::on_message(const wire::TrainerMessage& message, Time now) {
  history_.on_message(message);
  if (message.window_trained)
    spdlog::info("the trainer trained for {:.1f} s after the notice", *message.window_trained);
  if (message.of_guard) {
    if (message.note) spdlog::warn("{}", *message.note);
    if (message.best) spdlog::info("{}", *message.best);
    if (message.put_away) status_.say("put_away", *message.put_away);
    if (message.checkpoint) spdlog::info("{} is durable", message.checkpoint->path);
    return;
  }
  best_values_.on_message(message, std::chrono::system_clock::now());
  if (publisher_) publisher_->on_message(message);
  status_.observe(message, now);
  monitor_.on_message(message);
}

// No event of the core's: whom a gang waits for may be all that happens for long.
void Observers::on_gang(const wire::GangReport& gang, Time now) {
  if (gang.rounds > 0 && gang.rounds != std::exchange(gang_rounds_, gang.rounds)) {
    const wire::Json json = wire::to_json(gang);
    spdlog::info("{}, after {:.1f} s: {}", wire::printable(wire::gang_words(json)), gang.took,
                 wire::printable(wire::gang_reason(json)));
  }
  status_.observe(gang, now);
  monitor_.on_gang(gang, now);
  update(now, false);
}

void Observers::update(Time now, bool at_once) {
  if (const decide::State* state = state_()) status_.update(*state, says(*state), now, at_once);
}

// The journal's last sentence may be of an earlier stage: some have none there.
std::string Observers::says(const decide::State& state) const {
  const bool leaves = std::holds_alternative<decide::Leaving>(state.stage);
  if (leaves || !decide::describe(state, policy_).empty()) return journal_.said();
  return std::string(wire::stage_words(decide::name(state.stage)));
}

void Observers::on_event(const decide::Event& event, const decide::State& state,
                         std::size_t before) {
  const bool moved = state.stage.index() != before;
  journal_.on_event(event, state, policy_, moved);
  status_.update(state, says(state), event.at, moved);
  monitor_.update(event.at, moved);
  if (publisher_) publisher_->publish_status(represents_job(state));
  if (watcher_says_) watcher_says_->on_event(state, event.at);
  history_.on_event(event, state, policy_, before);
  if (const auto it = rules_.after(event, before, state, policy_); it && notifier_)
    notifier_->send(*it);
  if (!notifier_ || !represents_job(state) || !status_.outlook()) return;
  if (const auto it = rules_.of_deadline(*status_.outlook())) notifier_->send(*it);
}

asio::awaitable<void> Observers::finish(Duration at_most) {
  if (!notifier_) co_return;
  auto draining = notifier_->drain(at_most);
  if (!co_await std::move(draining))
    io::note(wire::event("notification-failed"), spdlog::level::warn,
             "notifications are lost: the agent ends before they are sent");
}

void Observers::on_end(const decide::State& state, Duration at_most) {
  history_.on_end(state);
  if (publisher_) publisher_->end(at_most);
}

void Observers::says(const char* key, std::string words, Time now) {
  if (std::string_view(key) == "storage_says")
    sd_notifyf(0, "STATUS=%s", words.empty() ? journal_.said().c_str() : words.c_str());
  status_.say(key, std::move(words));
  update(now, true);
}

void Observers::volume_warms(const act::Local::Warmth& is, Time now) {
  status_.volume_warms(is);
  update(now, true);
}

}  // namespace spotter

// What is done on a share: mounted and released, and what several machines do in its folders.
#include <spdlog/spdlog.h>

#include <cstdlib>

#include "agent/decide/policy.hpp"
#include "agent/io/log.hpp"
#include "agent/service/act/cache.hpp"
#include "agent/service/act/local_work.hpp"
#include "agent/wire/events.hpp"

namespace spotter::act {

verbs::Request Local::as_trainer(verbs::Verb verb) const {
  return {std::move(verb), job_.trainer.user};
}

verbs::Share Local::of_job() const {
  const config::Share& share = *job_.storage.share;
  const char* region = std::getenv("AWS_REGION");
  return {.kind = std::string(config::to_text(share.kind)),
          .mount_point = share.mount,
          .server = share.server,
          .path = share.path,
          .options = share.options,
          .access_point = share.access_point,
          .key = share.key,
          .known_hosts = share.known_hosts,
          .port = share.port,
          .tls = share.tls,
          .region = region == nullptr ? "" : region};
}

Local::Answer Local::prepare_share(Duration limit) {
  verbs::PrepareShare verb{.share = of_job(),
                           .user = job_.trainer.user,
                           .job = job_.folder_here(),
                           .holder = run_directory_,
                           .again = prepared_,
                           .identity = job_.is_handed_out(),
                           .cache = cache_folder(job_)};
  if (!verb.identity) lay_out(verb);
  verbs::Request wanted{std::move(verb), {}};
  auto running = run(std::move(wanted), limit);
  const Work work = co_await std::move(running);
  if (work.failed) co_return *work.failed;
  prepared_ = true;
  home_id_ = work.answer.value("id", "");
  if (const std::string cache = work.answer.value("cache", ""); !cache.empty())
    spdlog::info("{}", cache);
  if (const std::string foreign = work.answer.value("foreign", ""); !foreign.empty())
    io::note(wire::event("share-foreign"), spdlog::level::warn, "{}", foreign);
  co_return decide::Mounted{};
}

// With claims each attempt has its own folders instead.
void Local::lay_out(verbs::PrepareShare& verb) const {
  verb.directories = {"code", "result", "log"};
  if (job_.experiment) verb.directories.emplace_back(config::model_folder);
  verb.directories.push_back(job_.checkpoints.directory);
  if (!verb.cache.empty() && job_.storage.in_bucket()) verb.directories.emplace_back("cache");
  if (!job_.in_container()) return;
  verb.container = config::container_folder;
  verb.directories.push_back(verb.container);
  verb.link = link();
}

Local::Answer Local::release_share(Duration limit) {
  const bool linked = job_.in_container() && !job_.is_handed_out();
  return carry_out({verbs::ReleaseShare{of_job(), job_.folder_here(), run_directory_,
                                        linked ? link() : std::string()},
                    {}},
                   limit, decide::Unmounted{});
}

asio::awaitable<Result<std::string, decide::EffectFailed>> Local::home_verb(verbs::Verb verb,
                                                                            Duration limit) {
  verbs::Request wanted = as_trainer(std::move(verb));
  auto running = run(std::move(wanted), limit);
  const Work work = co_await std::move(running);
  if (work.failed) co_return tl::unexpected(*work.failed);
  co_return work.answer.dump();
}

Local::Answer Local::mark_done(Duration limit) {
  return carry_out(as_trainer(verbs::MarkDone{job_.home(), job_.name.str()}), limit,
                   decide::CallAccepted{});
}

asio::awaitable<Result<bool, decide::EffectFailed>> Local::is_there(std::string path,
                                                                    Duration limit) {
  using Clock = asio::steady_timer::clock_type;
  constexpr std::chrono::seconds between{1};
  asio::steady_timer pause(co_await asio::this_coro::executor);
  const auto until = Clock::now() + limit;
  for (;;) {
    verbs::Request wanted = as_trainer(verbs::There{path});
    auto running = run(std::move(wanted), std::chrono::ceil<Duration>(until - Clock::now()));
    const Work work = co_await std::move(running);
    if (work.failed && !unknown_since_) {
      unknown_since_ = Clock::now();
      spdlog::warn("whether there is {} is not known yet: {}", path, work.failed->detail.view());
    }
    const bool too_long = work.failed && Clock::now() - *unknown_since_ >= job_.on_failure.blocked;
    if (!work.failed || too_long) {
      unknown_since_.reset();
      co_return !too_long && work.answer.value("there", false);
    }
    if (Clock::now() + between >= until) co_return tl::unexpected(*work.failed);
    pause.expires_after(between);
    boost::system::error_code ignored;
    co_await pause.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  }
}

asio::awaitable<void> Local::keep_log(Duration limit) {
  verbs::Request wanted =
      as_trainer(verbs::KeepLog{run_directory_ + "/trainer.log", job_.home() + "/log/trainer.log"});
  auto running = run(std::move(wanted), limit);
  const Work work = co_await std::move(running);
  if (work.failed) spdlog::warn("the trainer's log is kept later: {}", work.failed->detail.view());
}

// --- attempts, with the rights of the trainer's user, as all work in a home

asio::awaitable<Result<std::string>> Local::attempt_verb(verbs::Verb verb, Duration limit) {
  verbs::Request wanted = as_trainer(std::move(verb));
  auto running = run(std::move(wanted), limit);
  const Work work = co_await std::move(running);
  if (work.failed) co_return failure(work.failed->detail.str());
  co_return work.answer.value("answer", "");
}

asio::awaitable<Result<std::string>> Local::find_parent(std::string home, std::uint64_t token,
                                                        Duration limit) {
  return attempt_verb(verbs::FindParent{std::move(home), token}, limit);
}

asio::awaitable<Result<std::string>> Local::begin_attempt(std::string home, std::string attempt,
                                                          std::string parent, Duration limit) {
  return attempt_verb(verbs::BeginAttempt{std::move(home), std::move(attempt), std::move(parent)},
                      limit);
}

asio::awaitable<Result<std::string>> Local::publish_attempt(std::string home, std::string attempt,
                                                            Duration limit) {
  return attempt_verb(verbs::PublishAttempt{std::move(home), std::move(attempt)}, limit);
}

asio::awaitable<Result<std::string>> Local::sum_up(verbs::SumUp what, Duration limit) {
  return attempt_verb(std::move(what), limit);
}

}  // namespace spotter::act

// What is done on a share: mounted and let go of, and what several machines do in its folders.
#include <spdlog/spdlog.h>

#include <cstdlib>

#include "agent/decide/policy.hpp"
#include "agent/io/log.hpp"
#include "agent/service/act/cache.hpp"
#include "agent/service/act/local_work.hpp"
#include "agent/wire/events.hpp"

namespace spotter::act {

std::vector<std::string> Local::on_share(const char* verb) const {
  const config::Share& share = *job_.storage.share;
  std::vector<std::string> words = {verb,
                                    "--kind",
                                    std::string(config::to_text(share.kind)),
                                    "--mount-point",
                                    share.mount,
                                    "--port",
                                    std::to_string(share.port),
                                    "--user",
                                    job_.trainer.user,
                                    "--job",
                                    job_.folder(),
                                    "--holder",
                                    run_directory_};
  const auto add = [&words](const char* option, const std::string& value) {
    if (!value.empty()) words.insert(words.end(), {option, value});
  };
  add("--server", share.server);
  add("--path", share.path);
  add("--options", share.options);
  add("--access-point", share.access_point);
  add("--key", share.key);
  add("--known-hosts", share.known_hosts);
  const char* region = std::getenv("AWS_REGION");
  add("--region", region == nullptr ? "" : region);
  if (share.tls) words.push_back("--tls");
  if (job_.is_handed_out()) {  // each attempt has its own folders
    words.push_back("--identity");
    return words;
  }
  for (const char* name : {"code", "result", "log"}) add("--directory", name);
  if (job_.experiment) add("--directory", std::string(config::model_folder));
  add("--directory", job_.checkpoints.directory);
  if (job_.in_container()) {
    add("--directory", std::string(config::container_folder));
    add("--container", std::string(config::container_folder));
    add_link(words);
  }
  return words;
}

Local::Answer Local::prepare_share(Duration limit) {
  std::vector<std::string> arguments = on_share("prepare-share");
  if (prepared_) arguments.emplace_back("--again");
  if (const std::string cache = cache_folder(job_); !cache.empty())
    arguments.insert(arguments.end(), {"--cache", cache});
  auto running = run(std::move(arguments), limit);
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

Local::Answer Local::release_share(Duration limit) {
  return carry_out(on_share("release-share"), limit, decide::Unmounted{});
}

Local::Answer Local::mark_done(Duration limit) {
  std::vector<std::string> arguments = {"--as",      job_.trainer.user, "mark-done",    "--path",
                                        job_.home(), "--job",           job_.name.str()};
  return carry_out(std::move(arguments), limit, decide::CallAccepted{});
}

asio::awaitable<tl::expected<bool, decide::EffectFailed>> Local::is_there(std::string path,
                                                                          Duration limit) {
  using Clock = asio::steady_timer::clock_type;
  constexpr std::chrono::seconds between{1};
  asio::steady_timer pause(co_await asio::this_coro::executor);
  const auto until = Clock::now() + limit;
  for (;;) {
    std::vector<std::string> arguments = {"--as", job_.trainer.user, "there", "--path", path};
    auto running = run(std::move(arguments), std::chrono::ceil<Duration>(until - Clock::now()));
    const Work work = co_await std::move(running);
    if (work.failed && !unknown_since_) {
      unknown_since_ = Clock::now();
      spdlog::warn("whether there is {} is not known yet: {}", path, work.failed->detail.view());
    }
    const bool too_long =
        work.failed && Clock::now() - *unknown_since_ >= decide::Policy().blocked_limit;
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
  std::vector<std::string> arguments = {"--as",
                                        job_.trainer.user,
                                        "keep-log",
                                        "--from",
                                        run_directory_ + "/trainer.log",
                                        "--path",
                                        job_.home() + "/log/trainer.log"};
  auto running = run(std::move(arguments), limit);
  const Work work = co_await std::move(running);
  if (work.failed) spdlog::warn("the trainer's log is kept later: {}", work.failed->detail.view());
}

// --- attempts: as the trainer's user, as all that is done in a home

asio::awaitable<Result<std::string>> Local::attempt_verb(std::vector<std::string> words,
                                                         Duration limit) {
  std::vector<std::string> arguments = {"--as", job_.trainer.user};
  arguments.insert(arguments.end(), words.begin(), words.end());
  auto running = run(std::move(arguments), limit);
  const Work work = co_await std::move(running);
  if (work.failed) co_return failure(work.failed->detail.str());
  co_return work.answer.value("answer", "");
}

asio::awaitable<Result<std::string>> Local::find_parent(std::string home, std::uint64_t token,
                                                        Duration limit) {
  return attempt_verb({"find-parent", "--path", std::move(home), "--token", std::to_string(token)},
                      limit);
}

asio::awaitable<Result<std::string>> Local::begin_attempt(std::string home, std::string attempt,
                                                          std::string parent, Duration limit) {
  return attempt_verb({"begin-attempt", "--path", std::move(home), "--attempt", std::move(attempt),
                       "--parent", std::move(parent)},
                      limit);
}

asio::awaitable<Result<std::string>> Local::publish_attempt(std::string home, std::string attempt,
                                                            Duration limit) {
  return attempt_verb(
      {"publish-attempt", "--path", std::move(home), "--attempt", std::move(attempt)}, limit);
}

asio::awaitable<Result<std::string>> Local::sum_up(std::string home, std::size_t index,
                                                   std::uint64_t token, Duration limit) {
  return attempt_verb({"sum-up", "--path", std::move(home), "--index", std::to_string(index),
                       "--token", std::to_string(token)},
                      limit);
}

}  // namespace spotter::act

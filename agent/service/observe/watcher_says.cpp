#include "agent/service/observe/watcher_says.hpp"

#include <chrono>

#include "agent/launch/watch_mark.hpp"

namespace spotter {
namespace {

constexpr Duration read_every{120'000};  // as a status is published
constexpr Duration read_limit{20'000};

}  // namespace

void WatcherSays::on_event(const decide::State& state, Time now) {
  const decide::Facts& facts = state.facts;
  if (!wanted_ || asking_ || now < next_ || !facts.trainer.running) return;
  if (facts.identity.fleet.kind == FleetKind::None) return;
  asking_ = true;
  next_ = now + read_every;
  asio::co_spawn(context_, ask(facts.identity.fleet), io::rethrow);
}

// What was said before stands while AWS does not answer.
asio::awaitable<void> WatcherSays::ask(Fleet fleet) {
  auto asking = cloud_.watchers_tag(fleet, read_limit);
  const auto tag = co_await std::move(asking);
  asking_ = false;
  if (!tag) co_return;
  const auto now = std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
  const std::string words = launch::words_of_watcher(*tag, now);
  say_(words.empty() ? "nobody watches: no on-demand instance comes" : words);
}

}  // namespace spotter

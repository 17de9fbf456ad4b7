// Claims a second: agents that take experiments out of a bucket and finish them at once, each with
// a thread and a connection of its own. bench_claims AGENTS EXPERIMENTS BUCKET
#include <poll.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include "agent/service/sweep/claims.hpp"

namespace {

using namespace spotter;

Time now() {
  return Time(
      std::chrono::duration_cast<Duration>(std::chrono::steady_clock::now().time_since_epoch()));
}

struct Share {
  std::size_t published = 0;
  std::size_t requests = 0;
  std::size_t troubles = 0;
  Time last{};  // publication; who is too late for one waits a lease before it looks again
};

Share work(std::size_t agent, std::size_t experiments, const std::string& bucket) {
  Share share;
  sweep::ClaimSettings settings;
  settings.experiments = experiments;
  settings.holder = "agent-" + std::to_string(agent);
  settings.nonce = settings.holder;
  settings.seed = agent;
  sweep::Claimant claimant(settings);
  command::ClaimClerk clerk({.environment = act::Environment::of_this_process()},
                            {bucket, "claims/"}, {.id = "bench", .storage = "none"});
  std::vector<sweep::News> news{sweep::Tick{}};
  for (;;) {
    while (!news.empty()) {
      const auto orders = claimant.on(now(), news.back());
      news.pop_back();
      for (const auto& order : orders) {
        if (const auto* request = std::get_if<sweep::Request>(&order)) {
          clerk.send(*request);
          ++share.requests;
        } else if (const auto* mark = std::get_if<sweep::Mark>(&order)) {
          clerk.send(*mark);
          ++share.requests;
        } else if (std::holds_alternative<sweep::Begin>(order)) {
          news.emplace_back(sweep::TrainerDone{});
        } else if (std::holds_alternative<sweep::Published>(order)) {
          ++share.published;
          const auto index = std::get<sweep::Published>(order).index;
          clerk.send(sweep::Mark{index, sweep::Hint::Ended, true});
          ++share.requests;
          share.last = now();
        } else if (std::holds_alternative<sweep::Idle>(order)) {
          return share;  // who is at work finishes what is left
        }
      }
    }
    const auto wake = claimant.wake_at();
    const auto left = wake == Time::max() ? -1 : std::max<std::int64_t>(0, (wake - now()).count());
    pollfd file{clerk.descriptor(), POLLIN, 0};
    ::poll(&file, 1, static_cast<int>(std::min<std::int64_t>(left, 1000)));
    while (auto outcome = clerk.next_answer()) {
      share.troubles += outcome->trouble.empty() ? 0 : 1;
      news.emplace_back(std::move(outcome->reply));
    }
    if (news.empty()) news.emplace_back(sweep::Tick{});
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: bench_claims AGENTS EXPERIMENTS BUCKET\n");
    return 2;
  }
  const std::size_t agents = std::strtoull(argv[1], nullptr, 10);
  const std::size_t experiments = std::strtoull(argv[2], nullptr, 10);
  std::vector<Share> shares(agents);
  const auto begun = now();
  std::vector<std::thread> threads;
  for (std::size_t agent = 0; agent < agents; ++agent)
    threads.emplace_back([&, agent] { shares[agent] = work(agent, experiments, argv[3]); });
  for (auto& thread : threads) thread.join();
  Share all;
  for (const auto& share : shares) {
    all.last = std::max(all.last, share.last);
    all.published += share.published;
    all.requests += share.requests;
    all.troubles += share.troubles;
  }
  const double seconds = std::chrono::duration<double>(all.last - begun).count();
  std::printf(
      "{\"agents\": %zu, \"experiments\": %zu, \"published\": %zu, \"seconds\": %.2f, "
      "\"claims_a_second\": %.0f, \"requests\": %zu, \"troubles\": %zu}\n",
      agents, experiments, all.published, seconds, static_cast<double>(all.published) / seconds,
      all.requests, all.troubles);
  return all.published == experiments ? 0 : 1;
}

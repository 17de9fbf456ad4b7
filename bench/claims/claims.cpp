// Claims a second: agents that take experiments out of a bucket and finish them at once, each with
// a thread and a connection of its own. bench_claims AGENTS EXPERIMENTS BUCKET
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include "agent/io/kernel.hpp"
#include "agent/service/sweep/claims.hpp"

namespace {

using namespace spotter;

struct Claimed {
  std::size_t published = 0;
  std::size_t troubles = 0;
  Time last{};  // publication; who is too late for one waits a lease before it looks again
};

// Until others are at work on what is left, and finish it.
Claimed work(const config::Job& job, std::size_t agent, std::size_t experiments) {
  Claimed share;
  asio::io_context context;
  Claims* all = nullptr;
  bool idle = false;
  const auto carry_out = [&](const sweep::Order& order) {
    if (std::holds_alternative<sweep::Begin>(order))
      asio::post(context, [&] { all->deliver(sweep::TrainerDone{}); });
    else if (const auto* done = std::get_if<sweep::Published>(&order)) {
      ++share.published;
      share.last = io::now();
      all->mark_ended(done->index, "");
    } else if (std::holds_alternative<sweep::Idle>(order)) {
      idle = true;
    }
  };
  Claims claims(context, job, {.id = "bench", .storage = "none"},
                {carry_out, [](auto, const auto&) {},
                 [&](const std::string& trouble) { share.troubles += trouble.empty() ? 0 : 1; }});
  all = &claims;
  claims.begin(claim_settings(job, experiments, "agent-" + std::to_string(agent)));
  while (!idle || claims.is_busy()) context.run_one();
  return share;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: bench_claims AGENTS EXPERIMENTS BUCKET\n");
    return 2;
  }
  const std::size_t agents = std::strtoull(argv[1], nullptr, 10);
  const std::size_t experiments = std::strtoull(argv[2], nullptr, 10);
  std::vector<Claimed> shares(agents);
  config::Job job;
  job.claims = config::Claims{.at = {argv[3], "claims/"}};
  const auto begun = io::now();
  std::vector<std::thread> threads;
  for (std::size_t agent = 0; agent < agents; ++agent)
    threads.emplace_back([&, agent] { shares[agent] = work(job, agent, experiments); });
  for (auto& thread : threads) thread.join();
  Claimed all;
  for (const auto& share : shares) {
    all.last = std::max(all.last, share.last);
    all.published += share.published;
    all.troubles += share.troubles;
  }
  const double seconds = std::chrono::duration<double>(all.last - begun).count();
  std::printf(
      "{\"agents\": %zu, \"experiments\": %zu, \"published\": %zu, \"seconds\": %.2f, "
      "\"claims_a_second\": %.0f, \"troubles\": %zu}\n",
      agents, experiments, all.published, seconds, static_cast<double>(all.published) / seconds,
      all.troubles);
  return all.published == experiments ? 0 : 1;
}

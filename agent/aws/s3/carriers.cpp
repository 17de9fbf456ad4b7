#include "agent/aws/s3/carriers.hpp"

#include <algorithm>
#include <utility>

namespace spotter::s3 {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds tick_every{1};

bool is_read(const Plan& plan) { return plan.method == "GET" || plan.method == "HEAD"; }

}  // namespace

Carriers::Carriers(bool proxy, Ended ended) : proxy_(proxy), ended_(std::move(ended)) {}

std::unique_ptr<Connection> Carriers::free_connection(const std::string& base) {
  // The one that was used last: what it needs is still in the processor's caches.
  const auto found = std::find_if(free_connections_.rbegin(), free_connections_.rend(),
                                  [&](const auto& each) { return each->base() == base; });
  if (found == free_connections_.rend()) {
    ++made_;
    return std::make_unique<Connection>(loop_, *shared_, trust_, base);
  }
  auto connection = std::move(*found);
  free_connections_.erase(std::next(found).base());
  return connection;
}

void Carriers::start(Id id, Plan plan) {
  if (!shared_) shared_.emplace();
  if (!is_read(plan) || proxy_) {
    if (free_exchanges_.empty())
      free_exchanges_.push_back(std::make_unique<Exchange>(loop_, trust_));
    auto& exchange = *(exchanges_[id] = std::move(free_exchanges_.back()));
    free_exchanges_.pop_back();
    return exchange.begin(std::move(plan), [this, id](Taken taken) {
      free_exchanges_.push_back(std::move(exchanges_.extract(id).mapped()));
      ended_(id, std::move(taken));
    });
  }
  auto& connection = *(connections_[id] = free_connection(plan.base));
  connection.begin(std::move(plan), [this, id](Taken taken) {
    free_connections_.push_back(std::move(connections_.extract(id).mapped()));
    ended_(id, std::move(taken));
  });
}

void Carriers::drop(Id id) {
  connections_.erase(id);
  exchanges_.erase(id);
}

std::optional<curl::Loop::Instant> Carriers::next() const {
  auto next = loop_.next();
  const auto sooner = [&next](std::optional<curl::Loop::Instant> at) {
    if (at && (!next || *at < *next)) next = at;
  };
  for (const auto& [id, connection] : connections_) sooner(connection->next());
  if (!connections_.empty()) sooner(ticked_ + tick_every);
  return next;
}

// By their numbers: while one ends, others may be dropped.
void Carriers::each(const std::function<void(Connection&)>& what) {
  std::vector<Id> all;
  all.reserve(connections_.size());
  for (const auto& [id, connection] : connections_) all.push_back(id);
  for (const auto id : all) {
    const auto found = connections_.find(id);
    if (found != connections_.end()) what(*found->second);
  }
}

void Carriers::turn(std::chrono::milliseconds at_most) {
  loop_.turn(at_most);
  const auto now = Clock::now();
  const bool due = std::ranges::any_of(connections_, [now](const auto& each) {
    const auto next = each.second->next();
    return next && *next <= now;
  });
  if (due) {
    each([now](Connection& connection) {
      const auto next = connection.next();
      if (next && *next <= now) connection.continue_connecting();
    });
  }
  if (now - ticked_ < tick_every) return;
  ticked_ = now;
  std::erase_if(free_connections_, [](const auto& each) { return !each->is_open(); });
  each([](Connection& connection) { connection.tick(); });
}

}  // namespace spotter::s3

// What `spotter gang` answers torchrun's rendezvous (trainer/library/python/spotter/rendezvous.py).
#include <charconv>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "agent/tools/gang/gang_copies.hpp"
#include "agent/tools/gang/gang_handover.hpp"
#include "agent/tools/gang/gang_home.hpp"
#include "agent/tools/gang/gang_process.hpp"

namespace spotter::command {
namespace {

// ?port=4000&pid=17
long number_in(const std::string& target, std::string_view name) {
  const auto at = target.find(std::string(name) + "=");
  long number = -1;
  if (at != target.npos)
    std::from_chars(target.data() + at + name.size() + 1, target.data() + target.size(), number);
  return number;
}

}  // namespace

asio::awaitable<io::LocalResponse> GangProcess::answer(io::LocalRequest request) {
  if (request.authorization != "Bearer " + token_) co_return io::LocalResponse{403, "{}"};
  if (request.target.starts_with("/over?")) {
    const bool over = participant_.is_over(
        static_cast<std::uint64_t>(std::max(number_in(request.target, "round"), 0L)));
    co_return io::LocalResponse{200, nlohmann::json{{"over", over}}.dump()};
  }
  const long port = number_in(request.target, "port");
  const auto torchrun = static_cast<pid_t>(number_in(request.target, "pid"));
  if (!request.target.starts_with("/round?") || port < 1 || port > UINT16_MAX)
    co_return io::LocalResponse{404, "{}"};
  // Only its own children are ended: never a process that a number happens to name.
  torchrun_ = launcher_.has(torchrun) ? torchrun : 0;
  if (!std::exchange(has_asked_, true)) launch_took_ = gang_now() - launched_at_;
  launches_ = 0;
  const std::uint64_t asking = ++asked_;
  participant_.ready(static_cast<std::uint16_t>(port),
                     newest_step(options_.home + "/" + options_.checkpoints),
                     became(request.target, std::exchange(end_, {})));  // it is said once
  auto placing = place(asking);
  co_return co_await std::move(placing);
}

// What became of the workers. apart=N: they never began, since torchrun did not reach this machine
// of the round; N is the number of machines: it did not meet all of them in time. over=1: nor did
// they begin, as the round was over before.
gang::Last GangProcess::became(const std::string& target, std::optional<gang::End> end) const {
  const long rank = number_in(target, "apart");
  if (rank >= 0 && last_) return missed(static_cast<std::size_t>(rank));
  // What this process ended by SIGKILL looks to torchrun like a failure.
  if (end) return {*end};
  if (number_in(target, "over") == 1) return {gang::End::Ended};
  if (target.find("ended=torn") != target.npos) return {gang::End::Torn};
  return {target.find("ended=failed") != target.npos ? gang::End::Failed : gang::End::Other};
}

gang::Last GangProcess::missed(std::size_t rank) const {
  if (rank >= last_->machines.size()) {
    say_of_gang("the machines of round " + std::to_string(last_->round) +
                " did not all come together");
    return {.apart = true};
  }
  const gang::Place::Machine& other = last_->machines[rank];
  say_of_gang(
      "cannot reach " + other.name + " at " + other.address + ":" + std::to_string(other.port) +
      ": does its firewall, or its security group, let the gang's machines through on all ports?");
  return {.apart = true, .missed = other.id};
}

asio::awaitable<io::LocalResponse> GangProcess::place(std::uint64_t asking) {
  asio::steady_timer timer(context_);
  GangHandover handover(launcher_, participant_, torchrun_);
  const Time since = gang_now();
  std::string said;
  for (;;) {
    if (asking != asked_) co_return io::LocalResponse{410, R"({"error": "asked again"})"};
    if (participant_.refuses()) {
      refused_ = true;
      const char* why = participant_.is_done()      ? "the gang's result is there"
                        : participant_.is_leaving() ? "this machine leaves"
                        : participant_.is_given_back()
                            ? "this machine was the reason that a round ended twice"
                        : participant_.is_foreign() ? "the record is another job's"
                        : participant_.fell_apart() ? "the machines do not reach one another"
                                                    : "the trainer has failed again and again";
      co_return io::LocalResponse{409, nlohmann::json{{"error", why}}.dump()};
    }
    if (const auto place = handover.look()) {
      placed_ = asking;
      end_.reset();
      ranks_.forget();
      if (copies_) forget_newest_copy(copies_->path());
      last_ = place;
      say_of_gang("round " + std::to_string(place->round) + ": machine " +
                  std::to_string(place->rank) + " of " + std::to_string(place->machines.size()) +
                  ", after " + std::to_string((gang_now() - since).count()) + " ms");
      auto machines = nlohmann::json::array();
      for (const auto& each : place->machines) machines.push_back({each.address, each.port});
      co_return io::LocalResponse{200, nlohmann::json{{"round", place->round},
                                                      {"rank", place->rank},
                                                      {"machines", std::move(machines)}}
                                           .dump()};
    }
    if (handover.is_in_vain())
      co_return io::LocalResponse{410, R"({"error": "torchrun has ended"})"};
    const std::string waits = participant_.waits_for();
    if (!participant_.has_place() && waits != said && gang_now() - since > Duration(2'000))
      say_of_gang("waiting for " + (said = waits));
    timer.expires_after(gang_tick);
    boost::system::error_code ignored;
    auto waiting = timer.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
    co_await std::move(waiting);
  }
}

}  // namespace spotter::command

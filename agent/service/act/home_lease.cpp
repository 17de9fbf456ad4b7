// Who holds a home, and its lease: renewed once a minute, also while files are on their way or code
// is fetched, for a holder that is no instance is Gone without it.
#include <spdlog/spdlog.h>

#include <cstdio>
#include <fstream>
#include <functional>

#include "agent/decide/policy.hpp"
#include "agent/io/files.hpp"
#include "agent/io/kernel.hpp"
#include "agent/service/act/home.hpp"
#include "agent/supervise/here.hpp"

namespace spotter::act {
namespace {

// Drawn once for each run directory, whose next agent is the same holder. Not by what the machine
// is called: the pod that replaces one has its name, and the one before may run on.
std::string session_in(const std::string& run_directory) {
  const std::string path = run_directory + "/session";
  std::string session;
  std::ifstream(path) >> session;
  if (wire::is_home_id(session)) return session;
  session = io::random_hex(32);
  if (auto kept = io::replace_file(path, session + "\n"); !kept)
    spdlog::warn("{}: if this agent is killed, the next one waits until its lease is over",
                 kept.error().message());
  return session;
}

InstanceId name_of_run(const std::string& run_directory) {
  std::string host = command::host_name();
  const std::string of = host + "/" + session_in(run_directory);
  const auto fits = [](unsigned char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
  };
  std::erase_if(host, [&](char c) { return !fits(static_cast<unsigned char>(c)); });
  char hash[20];
  std::snprintf(hash, sizeof hash, "-%016zx", std::hash<std::string>()(of));
  return InstanceId(("run-" + host.substr(0, 9)) + hash);
}

}  // namespace

InstanceId Home::self() {
  const bool of_run = parts_.job.trainer.inherits;  // several may be on one instance
  if (!self_ && !of_run) self_ = instance_;
  if (!self_) self_ = name_of_run(parts_.run_directory);
  return self_;
}

// Of what fails nobody knows: the next time.
bool Home::touch(const wire::HeadHolder& holder, Duration limit) const {
  const auto renewed = [&](const wire::SeenHead& seen) { return wire::to_renewed(seen, holder); };
  const Finding before = change(renewed, limit);
  return before || before.error().failure != decide::Failure::Conflict;
}

asio::awaitable<void> Home::renew(std::shared_ptr<Renewal> renewal) {
  for (;;) {
    renewal->timer.expires_after(wire::head_lease);
    boost::system::error_code woken;
    co_await renewal->timer.async_wait(asio::redirect_error(asio::use_awaitable, woken));
    if (renewal->over) co_return;
    const Duration limit = decide::Policy().epoch_call;
    std::function<bool()> work = [this, limit, holder = wire::HeadHolder{renewal->epoch, self()}] {
      return touch(holder, limit);
    };
    auto touching = apart_.run(std::move(work), limit, "the home");
    const auto ours = co_await std::move(touching);
    if (renewal->over || (ours && !*ours)) co_return;
  }
}

void Home::begin_renewing(const asio::any_io_executor& executor, std::uint32_t epoch) {
  if (renewal_ && renewal_->epoch == epoch) return;
  end_renewing();
  renewal_ = std::make_shared<Renewal>(executor);
  renewal_->epoch = epoch;
  asio::co_spawn(executor, renew(renewal_), asio::detached);
}

void Home::end_renewing() {
  if (!renewal_) return;
  renewal_->over = true;
  renewal_->timer.cancel();
  renewal_.reset();
}

}  // namespace spotter::act

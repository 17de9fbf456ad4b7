// Carries out effects, each answered by exactly one event: at the latest a little after its
// deadline.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>

#include "agent/decide/effect.hpp"
#include "agent/decide/event.hpp"
#include "agent/service/act/cloud.hpp"
#include "agent/service/act/data_volumes.hpp"
#include "agent/service/act/local.hpp"
#include "agent/service/act/metrics.hpp"
#include "agent/service/act/trainer.hpp"

namespace spotter::act {

// What the performer needs of others (agent.cpp hands them in): act knows nothing of sense.
struct Surroundings {
  std::function<Time()> now;
  std::function<void(decide::Event)> deliver;
  std::function<asio::awaitable<decide::Happening>()> read_identity;
  std::function<void()> watch_trainer;  // from now on, say when it ends
  std::function<bool()> gave_up;        // the job is ended without a result
  std::function<void()> exit;
  // Lines of the job's history for the storage; so many bytes of them are there now.
  std::function<std::string()> history;
  std::function<void(std::size_t)> history_kept;
  std::string run_directory;
  std::string result;  // absolute path of the declared result, or empty
};

// Threading: the io_context's one thread. Pieces of local work run one after the other, in the
// order asked for, so that an unmount never overtakes a write; calls to AWS run side by side.
class Performer {
 public:
  Performer(asio::io_context& context, Cloud& cloud, Local& local, DataVolumes& data,
            Trainer& trainer, Metrics& metrics, Surroundings surroundings);

  void perform(const decide::Effect& effect);

 private:
  using Answer = asio::awaitable<decide::Happening>;
  struct Running;

  void start(const decide::Effect& effect);
  void abandon(decide::EffectId id);
  void answer(decide::EffectId id, decide::Happening what);
  void finish_local();
  Answer work(const decide::Command& command, Duration limit);
  Answer cloud_work(const decide::Command& command, Duration limit);
  Answer local_work(const decide::Command& command, Duration limit);
  void forget_end();
  Answer look_at_host(Duration limit);
  Answer verify(decide::VerifyCheckpoints effect, Duration limit);
  Answer fetch_code(Duration limit);
  Answer release_share(Duration limit);
  Answer write_account(decide::Ledger ledger, Duration limit);
  asio::awaitable<void> keep_metrics(Time until);
  asio::awaitable<void> keep_journal(Time until);
  asio::awaitable<void> keep_history(Time until);
  Answer start_trainer(decide::StartTrainer effect, Duration limit);

  asio::io_context& context_;
  Cloud& cloud_;
  Local& local_;
  DataVolumes& data_;
  Trainer& trainer_;
  Metrics& metrics_;
  Surroundings surroundings_;
  std::map<std::uint32_t, std::shared_ptr<asio::cancellation_signal>> running_;  // by number
  std::deque<decide::Effect> waiting_local_;
  bool local_busy_ = false;
};

}  // namespace spotter::act

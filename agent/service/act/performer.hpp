// Carries out effects. Each is answered by exactly one event, shortly after its deadline at the
// latest.
#pragma once

#include <deque>
#include <map>

#include "agent/decide/effect.hpp"
#include "agent/decide/event.hpp"
#include "agent/service/act/data_volumes.hpp"
#include "agent/service/act/home.hpp"
#include "agent/service/act/metrics.hpp"
#include "agent/service/act/trainer.hpp"
#include "agent/supervise/client.hpp"

namespace spotter::act {

// The performer's needs from other folders; agent.cpp passes them, as act does not include sense.
struct Dependencies {
  std::function<void(decide::Event)> deliver;
  std::function<asio::awaitable<decide::Happening>()> read_identity;
  std::function<void()> watch_trainer;  // from now on, report its end
  std::function<bool()> gave_up;        // the job has ended without a result
  std::function<void()> exit;
  std::function<bool()> power_off;  // of this machine; false: it cannot
  // Lines of the job's history for the storage; the second gets the number of bytes written.
  std::function<std::string()> history;
  std::function<void(std::size_t)> history_kept;
  std::string run_directory;
  std::string result;  // absolute path of the declared result, or empty
  const config::Job* job = nullptr;
};

// Threading: the io_context's one thread. Local work runs one piece at a time, in the order of the
// effects, so that an unmount never overtakes a write; calls to AWS run concurrently.
class Performer {
 public:
  Performer(asio::io_context& context, Cloud& cloud, Local& local, DataVolumes& data,
            Trainer& trainer, Metrics& metrics, Dependencies dependencies);

  void perform(const decide::Effect& effect);

 private:
  using Answer = asio::awaitable<decide::Happening>;
  using Work = std::function<Answer(Duration limit)>;
  struct Task {
    decide::Effect effect;
    Work work;
    bool local = false;
  };
  struct Dispatch;

  void queue(Task task);
  void start(Task task);
  void abandon(decide::EffectId id);
  asio::awaitable<void> end(std::uint32_t number);
  void answer(decide::EffectId id, decide::Happening what);
  void finish_local();
  supervise::Expectation expectation(std::string result) const;
  void forget_end();
  // The effects for which it does more than ask one of the others.
  Answer on(const decide::ReadIdentity&, Duration) { return dependencies_.read_identity(); }
  Answer on(const decide::SurveyStorage& it, Duration limit) {
    return home_ ? home_->survey(limit) : cloud_.on(it, limit);
  }
  Answer on(const decide::WriteEpoch& it, Duration limit) {
    return home_ ? home_->write(it.epoch, limit) : cloud_.on(it, limit);
  }
  Answer on(const decide::CancelFleet& it, Duration limit) {
    return or_shut_down(cloud_.on(it, limit), it.or_shut_down);
  }
  Answer on(const decide::ScaleFleetToZero& it, Duration limit) {
    return or_shut_down(cloud_.on(it, limit), it.or_shut_down);
  }
  Answer on(const decide::GiveBackInstance& it, Duration limit) {
    return or_shut_down(cloud_.on(it, limit), true);
  }
  Answer on(const decide::LeaveFleet& it, Duration limit) {
    return or_shut_down(cloud_.on(it, limit), it.or_shut_down);
  }
  Answer on(const decide::PrepareData& it, Duration limit) { return data_.prepare(it, limit); }
  Answer on(const decide::ReleaseData& it, Duration limit) { return data_.release(it, limit); }
  Answer on(const decide::Unmount& it, Duration limit);
  Answer on(const decide::SyncStorage& it, Duration limit);
  Answer on(decide::LookAtHost, Duration limit);
  decide::EffectFailed anothers(const supervise::Record& trainer);
  Answer on(decide::VerifyCheckpoints effect, Duration limit);
  Answer on(decide::FetchCode, Duration limit);
  Answer on(decide::ReleaseShare effect, Duration limit);
  Answer on(decide::PrepareShare effect, Duration limit);
  Answer on(decide::WriteLedger effect, Duration limit);
  asio::awaitable<void> keep_metrics(Time until);
  asio::awaitable<void> keep_journal(Time until);
  asio::awaitable<void> keep_history(Time until);
  Answer or_shut_down(Answer asked, bool may);
  Answer on(decide::StartTrainer effect, Duration limit);

  asio::io_context& context_;
  Cloud& cloud_;
  Local& local_;
  DataVolumes& data_;
  Trainer& trainer_;
  Metrics& metrics_;
  std::unique_ptr<Home> home_;  // of a job whose storage is a bucket
  Dependencies dependencies_;
  std::map<std::uint32_t, std::shared_ptr<asio::cancellation_signal>> running_;  // by number
  std::deque<Task> waiting_local_;
  bool local_busy_ = false;
};

}  // namespace spotter::act

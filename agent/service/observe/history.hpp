// Records what happens to the job as entries of its history (wire/history.hpp): for the storage,
// for readers in S3 (observers.cpp), and for sinks that need each entry at once.
#pragma once

#include <functional>
#include <map>

#include "agent/decide/effect.hpp"
#include "agent/decide/event.hpp"
#include "agent/decide/policy.hpp"
#include "agent/decide/state.hpp"
#include "agent/service/observe/history_file.hpp"
#include "agent/wire/datagram.hpp"

namespace spotter {

class History {
 public:
  using Sink = std::function<void(const wire::HistoryEntry&)>;
  struct Settings {
    std::string run_directory;
    std::string job;  // the owner in its volumes' tags: with the experiment's index
    std::optional<std::size_t> experiment;
    std::string host;               // name where there is no instance
    double booted = 0;              // of the machine, in seconds since 1970
    std::function<double()> clock;  // the current time, in the same unit
  };
  explicit History(Settings settings);

  // `sink` gets each entry from now on. Entries made before the instance id is known are delivered
  // once it is. A restarted agent does not repeat those of the previous one.
  void add_sink(Sink sink) { sinks_.push_back(std::move(sink)); }

  // To be called before an effect is carried out.
  void on_effect(const decide::Effect& effect);
  void on_message(const wire::TrainerMessage& message);
  // To be called after each step of the core; `before`: the index of the stage before it.
  void on_event(const decide::Event& event, const decide::State& state,
                const decide::Policy& policy, std::size_t before);
  // The machine's launch, in seconds since 1970: no boot came before it. A container, or a process
  // that plays a machine, has the boot time of its host.
  void on_launched(double time);
  // To be called when the agent ends.
  void on_end(const decide::State& state);

  HistoryFile& file() { return file_; }

 private:
  using Fields = nlohmann::json;
  void add(std::string what, Fields fields = Fields::object());
  void give(wire::HistoryEntry entry);
  void learn_name(const decide::Facts& facts, bool settled);
  wire::HistoryEntry beginning(double time) const;
  void go_on_after(const std::vector<wire::HistoryEntry>& earlier);
  void settle_change(const decide::Event& event, const decide::Facts& facts);
  void record_happening(const decide::Event& event, const decide::State& state);
  void record_notice(const decide::NoticeSeen& notice, Time at);
  void record_checkpoint(const decide::CheckpointMade& made, const decide::Facts& facts);
  void record_end(const decide::TrainerEnded& ended, const decide::Facts& facts);
  void record_phase(const decide::State& state, const decide::Policy& policy);
  void record_ledger(const decide::Ledger& ledger);
  void record_problems();

  Settings settings_;
  HistoryFile file_;
  std::vector<Sink> sinks_;
  bool named_ = false;    // the machine's name is known
  std::string instance_;  // that name
  std::string type_, zone_;
  std::vector<wire::HistoryEntry> held_;  // entries until then
  double began_ = 0;

  std::map<std::uint32_t, Fields> asked_;  // pending changes of volumes, by effect number
  std::string phase_;
  double price_ = 0;
  double notice_until_ = 0;  // the last recorded deadline
  std::uint64_t repeated_ = 0;
  double ledger_recorded_ = 0;
  // Figures of the running trainer.
  bool running_ = false, killed_ = false;
  double run_began_ = 0, stall_ = 0, checkpoint_recorded_ = 0;
  std::uint32_t checkpoints_ = 0;
  std::uint64_t bytes_ = 0;                        // of them all
  std::optional<std::uint64_t> checkpoint_bytes_;  // of the next one
  std::optional<double> window_trained_;
  // Problems in the log.
  std::chrono::milliseconds problems_until_{0};
  std::map<std::string, double, std::less<>> problems_recorded_;  // text -> when it was recorded
};

}  // namespace spotter

// What happens to the job, as moments (wire/history.hpp): for the storage, for whoever reads it in
// S3 (publisher.hpp), and for whoever is to be told at once (sinks).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/decide/effect.hpp"
#include "agent/decide/event.hpp"
#include "agent/decide/policy.hpp"
#include "agent/decide/state.hpp"
#include "agent/service/observe/history_file.hpp"
#include "agent/wire/datagram.hpp"

namespace spotter {

// The phase of the job to which a stage belongs; empty: it goes on with the one before it, since it
// is only a look in between.
std::string_view phase_of(const decide::State& state);

class History {
 public:
  using Sink = std::function<void(const wire::Moment&)>;
  struct Settings {
    std::string run_directory;
    std::string job;  // its volumes' owner: with the experiment's index
    std::optional<std::size_t> experiment;
    std::string host;               // where there is no instance
    double booted = 0;              // the machine, in seconds since 1970
    std::function<double()> clock;  // the same, now
  };
  explicit History(Settings settings);

  // Is given each moment from now on. What came before it is known who we are comes then. An agent
  // that is started again tells nobody of what the one before it has told.
  void add_sink(Sink sink) { sinks_.push_back(std::move(sink)); }

  // Before an effect is carried out.
  void ask(const decide::Effect& effect);
  void hear(const wire::TrainerMessage& message);
  // After each step of the core; `before`: the index of the stage before it.
  void tell(const decide::Event& event, const decide::State& state, const decide::Policy& policy,
            std::size_t before);
  // The agent ends.
  void leave(const decide::State& state);

  HistoryFile& file() { return file_; }

 private:
  using Fields = nlohmann::json;
  void add(std::string what, Fields fields = Fields::object());
  void give(wire::Moment moment);
  void name_ourselves(const decide::Facts& facts, bool settled);
  wire::Moment beginning(double time) const;
  void go_on_after(const std::vector<wire::Moment>& earlier);
  void settle_change(const decide::Event& event, const decide::Facts& facts);
  void tell_happening(const decide::Event& event, const decide::State& state);
  void tell_notice(const decide::NoticeSeen& notice, Time at);
  void tell_checkpoint(const decide::CheckpointMade& made, const decide::Facts& facts);
  void tell_end(const decide::TrainerEnded& ended, const decide::Facts& facts);
  void tell_phase(const decide::State& state, const decide::Policy& policy);
  void tell_account(const decide::Ledger& ledger);
  void tell_problems();

  Settings settings_;
  HistoryFile file_;
  std::vector<Sink> sinks_;
  bool named_ = false;    // it is known which machine this is
  std::string instance_;  // its name then
  std::string type_, zone_;
  std::vector<wire::Moment> held_;  // until then
  double began_ = 0;

  std::map<std::uint32_t, Fields> asked_;  // changes of volumes without an answer yet, by number
  std::string phase_;
  double price_ = 0;
  double notice_until_ = 0;  // the deadline that was told of
  std::uint64_t repeated_ = 0;
  double account_told_ = 0;
  // Of the trainer that runs.
  bool running_ = false, killed_ = false;
  double run_began_ = 0, stall_ = 0, checkpoint_told_ = 0;
  std::uint32_t checkpoints_ = 0;
  std::uint64_t bytes_ = 0;                        // of them together
  std::optional<std::uint64_t> checkpoint_bytes_;  // of the one that comes next
  std::optional<double> window_trained_;
  // Problems of the log.
  std::chrono::milliseconds problems_until_{0};
  std::map<std::string, double, std::less<>> problems_told_;  // by their words: when
};

}  // namespace spotter

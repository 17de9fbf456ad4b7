// One whole job of one seed: instances boot, agents decide, trainers train, faults happen, until
// the fleet is gone. One thread, virtual time; the same seed gives the same run.
#pragma once

#include "tests/simulate/story.hpp"

namespace spotter::simulate {

class Simulation {
 public:
  // A run whose faults the seed draws, those that `choice` allows.
  Simulation(std::uint64_t seed, bool record, Choice choice = {});
  // A run whose faults `script` has; the seed draws only how long things take.
  Simulation(std::uint64_t seed, bool record, Script script);
  Simulation(const Simulation&) = default;
  Simulation(Simulation&&) = default;
  virtual ~Simulation() = default;
  Verdict run();
  // One line for each thing that happened; empty unless recorded.
  const std::deque<std::string>& transcript() const { return transcript_; }
  std::string describe_menu() const;
  // The numbers of the faults that happened, or that the choice forbade.
  const std::vector<std::uint64_t>& fired() const { return fired_; }

 protected:  // market_replay.cpp has a trainer, boots and snapshots of its own
  // --- simulation.cpp: time and the world ---
  void at(Duration later, Action action);
  void at_time(Time when, Action action);
  Duration between(Duration least, Duration most);
  bool chance(double share);
  // Built only when somebody reads it: a text, a name or a number each.
  template <class... Parts>
  void say(std::string_view who, const Parts&... parts) {
    if (!record_) return;
    std::string what;
    (append(what, parts), ...);
    write(who, what);
  }
  template <class Part>
  static void append(std::string& text, const Part& part) {
    if constexpr (std::is_arithmetic_v<Part>) {
      text += std::to_string(part);
    } else if constexpr (requires { part.view(); }) {
      text += part.view();
    } else {
      text += part;
    }
  }
  void write(std::string_view who, const std::string& what);
  void drain();
  void submit_job();
  void request_fleet();
  bool is_over();
  virtual Duration boots() { return between(std::chrono::seconds(5), std::chrono::seconds(40)); }
  virtual void before_snapshot(const VolumeId&) {}
  void on(const world::InstanceStarted& it);
  void on(const world::InstanceShuttingDown& it);
  void on(const world::InstanceKilled& it);
  void on(const world::VolumeMade& it);
  void on(const world::VolumeRemoved& it);
  void on(const world::SnapshotTaken& it);
  static void on(const world::VolumeGrown&) {}     // no job asks for it
  static void on(const world::SnapshotCopied&) {}  // nor for this
  void on(const world::SnapshotRemoved& it);
  void on(const world::DeviceAttached& it);
  void on(const world::DeviceDetached& it);
  Device next_path(const Host& host);

  // --- agents.cpp: processes and their events ---
  void start_agent(const InstanceId& id);
  void kill_agent(Host& host);
  void look_at_metadata(Host& host, Duration delay);
  Duration metadata_fails_for(const InstanceId& id) const;
  void sense(Host& host, decide::Happening what);
  void take(Host& host, const decide::Event& event);
  void answer_later(Host& host, decide::EffectId id, Duration later, decide::Happening what);
  void perform(Host& host, const decide::Effect& effect);
  Host* agent_of(const InstanceId& id, std::uint64_t run);

  // --- points.cpp: scripted faults, numbered faults ---
  bool fires(double share);
  bool is_allowed(std::uint64_t number);
  bool survives(Host& host, Side side, std::string_view name);
  void inject(Host& host, ScriptedFault::Kind kind);
  void restart_later(Host& host);
  void move_capacity(const Zone& from);

  // --- cloud_executor.cpp: EC2 ---
  void call(Host& host, const decide::Effect& effect);
  void shut_down(const InstanceId& id);
  std::optional<decide::EffectFailed> refused(const std::string& action);
  decide::Happening carry_out(const decide::Command& command);
  decide::Happening snapshot(const decide::CreateSnapshot& command);
  decide::Happening tag(const std::string& id, const world::Tags& tags);
  decide::Happening create_volume(const decide::CreateVolume& command);
  decide::Happening cancel_fleet(const Fleet& fleet);
  decide::Happening read_fleet(const InstanceId& instance);
  void survey(Host& host, const decide::Effect& effect);

  // --- local_executor.cpp: the host ---
  void do_locally(Host& host, const decide::Effect& effect);
  void begin_work(Host& host);
  void end_work(Host& host, decide::Happening what);
  void abandon(Host& host, decide::EffectId id);
  Duration duration_of(Host& host, const decide::Command& command, bool& absent);
  decide::Happening work(Host& host, const decide::Command& command);
  decide::Happening look(Host& host);
  decide::Happening inspect(Host& host, const Device& device);
  decide::Happening make_filesystem(Host& host, const Device& device);
  void forget_end(Host& host);
  decide::Happening unmount(Host& host);
  decide::Happening work_on_files(Host& host, const decide::Command& command);
  void lose_work(Host& host);
  decide::Happening mount(Host& host, const decide::Mount& command);
  virtual decide::Happening start_trainer(Host& host);
  virtual Duration takes(Host& host, const decide::Command& command);
  void sync(Host& host);

  // --- share.cpp: a share, its server, its owner ---
  bool on_share() const { return policy_.storage == decide::StorageKind::Share; }
  bool is_silent() const { return now_ < share_.silent_until; }
  bool is_denied() const { return now_ < share_.denied_until; }
  void choose_share();
  void silence(Duration lasts);
  void speak();
  void inject_share_fault(Fault fault);
  void mend_share();
  void count_writers(const world::Instance& self, const world::FleetRequest& fleet,
                     decide::FleetRead& read);
  bool knows_silence(const Host& host) const;
  void begin_on_share(Host& host);
  void go_on_with_work(const InstanceId& id, std::uint64_t run, std::uint64_t number);
  bool is_left_waiting(Host& host, const decide::Command& command);
  void mount_share(Host& host);
  decide::Happening prepare_share(Host& host);
  decide::Happening release_share(Host& host);
  decide::Happening mark_done(Host& host);
  bool waits_in_kernel(Host& host, std::function<void()> again);
  bool ends_in_kernel(Host& host);
  void end_stuck(Host& host);
  void lose_touch(Host& host);
  void confirm_result(Host& host, Time since);
  void run_ended(Host& host);
  void run_again(const InstanceId& id, std::uint64_t boot);

  // --- data.cpp: a volume of data beside the job's own ---
  void choose_data();
  void make_source();
  void begin_on_data(Host& host);
  void go_on_with_data(const InstanceId& id, std::uint64_t run, std::uint64_t number);
  std::optional<decide::Happening> step_on_data(Host& host, const decide::Command& command);
  std::optional<decide::Happening> bring_data(Host& host);
  std::optional<decide::Happening> release_data(Host& host, bool remove);
  std::optional<decide::Happening> call_for_data(const char* action, std::function<void()> call);
  void make_data(Host& host, std::uint32_t attempt);
  void attach_data(Host& host, const decide::DataStep& step);
  std::optional<decide::Happening> mount_data(Host& host, const VolumeId& volume);
  void judge_data(const Host& host);
  std::vector<decide::SeenVolume> data_seen();  // survey.cpp
  decide::HolderState state_of(const InstanceId& holder);

  // --- fence.cpp: the job's epoch in S3 ---
  void choose_fence();
  bool is_fence_silent() const;
  bool fence_fails();
  void write_epoch(Host& host, const decide::Effect& effect);
  decide::Happening put_epoch(const decide::Epoch& epoch);
  void read_epoch(decide::Survey& picture, const VolumeId& known);
  const decide::Epoch* epoch_of(const VolumeId& volume) const;
  void judge_epoch(const decide::Epoch& before, const decide::Epoch& after);
  void judge_fenced_write(const Host& host, const char* what);
  void judge_fenced_removal(const VolumeId& removed);

  // --- bucket.cpp: the job's home in a bucket ---
  bool in_bucket() const { return policy_.storage == decide::StorageKind::Bucket; }
  bool on_volume() const { return policy_.storage == decide::StorageKind::Volume; }
  void choose_bucket();
  static VolumeId folder_of(const InstanceId& id);
  InstanceId self_of(const Host& host) const;
  const Host* host_named(const InstanceId& self) const;
  void when_awake(const InstanceId& id, std::uint64_t run, std::function<void(Host&)> then);
  Found head_there() const;
  Found put_head(const wire::Head& head, const std::string& etag, const InstanceId& author);
  void ask_s3(const Host& host, std::function<Found()> carry_out, FoundThen then);
  FoundThen by_the_limit(const Host& host, Duration limit, FoundThen then);
  void read_head(const Host& host, FoundThen then);
  void change_head(const Host& host, const HeadChanging& change);
  void try_to_change_head(const Host& host, const HeadChanging& change, int tries);

  // --- home.cpp: an agent's work on it ---
  void answer_from_home(Host& host, const decide::Effect& effect, decide::Happening what);
  decide::HolderState state_of_holder(const InstanceId& holder, Duration age);
  void survey_home(Host& host, const decide::Effect& effect);
  void write_home_epoch(Host& host, const decide::Effect& effect);
  void begin_renewing(Host& host, std::uint32_t epoch);
  void renew_later(const Host& host);
  bool begin_at_home(Host& host);
  std::function<void(Host&)> while_at_work(const Host& host, std::function<void(Host&)> then);
  void go_on_at_home(const Host& host, Duration later, std::function<void(Host&)> then);
  void find_head(const Host& host, FoundThen then);
  void finish_at_home(Host& host, const decide::Happening& what);
  void transfer(const Host& host, bool much, std::function<void(Host&)> then,
                std::function<void(Host&, decide::EffectFailed)> failed);
  void bring_home(Host& host);
  void fetch_home(Host& host, const wire::Head& head, std::uint32_t held);
  void tell_kept(Host& host, const decide::HomeKept& kept, const decide::Happening& outcome);
  void keep_home(Host& host);
  void send_home(Host& host, const wire::Head& head, std::uint32_t epoch, Time began);
  void trim_home(const std::string& committed, const std::string& marked, std::uint32_t epoch);
  void commit_home(Host& host, const std::string& manifest, std::uint32_t epoch,
                   const decide::HomeKept& sent, Time began);

  // --- judge_bucket.cpp ---
  wire::Head head_now() const;
  const Disk* committed() const;
  void judge_head(const wire::Head& before, const wire::Head& after, const InstanceId& author);
  void judge_manifests();
  void judge_progress(const char* what);
  bool s3_works() const;
  void judge_left(const InstanceId& author, std::uint32_t epoch);
  void judge_taken(const decide::Epoch& from);
  void judge_start_at_home(const Host& host);
  void judge_in_bucket(const decide::Command& command);

  // --- preparer.cpp: `spotter prepare` beside the job ---
  void choose_preparer();
  void expect_preparer();
  void launch_preparer();
  void prepare_after_loss();
  void preparer_left(const Host& host);
  const decide::Policy& policy_of(const Host& host) const;
  decide::Happening fill(Host& host, const decide::FillVolume& command);
  void judge_prepared(const VolumeId& volume);
  void judge_filled(const char* what);

  // --- gpus.cpp: machines that lack some ---
  void choose_gpus();
  void boot_gpus(Host& host);
  void lose_gpu(Host& host);
  decide::Happening await_gpus(Host& host);
  void judge_give_back(const InstanceId& caller);

  // --- left.cpp: what a session or a trainer leaves behind ---
  void choose_left();
  bool is_left(const Host& host) const;
  void leave_processes(Host& host);
  decide::Happening refuse_beside_left(Host& host);
  bool is_kept_busy(Host& host);
  bool cuts_unmount(Host& host);
  void end_unmount(Host& host);

  // --- trainer_model.cpp ---
  void tick(const InstanceId& id, std::uint64_t run);
  void write_checkpoint(Host& host, std::function<void(Host&)> then);
  struct Write {
    InstanceId host;
    std::uint64_t run = 0;
    std::uint64_t number = 0;
    std::int64_t step = 0;
    Duration took{0};
    std::function<void(Host&)> then;
  };
  void end_write(const Write& write);
  virtual void stop_trainer(Host& host, const decide::StopTrainer& why);
  void stop_by_others(Host& host);
  void take_signal(Host& host);  // it saves and ends, or ends, soon
  virtual void pace_trainer(Host& host, const decide::PaceTrainer& advice);
  void end_trainer(Host& host, bool success, bool as_asked);
  virtual void trainer_dies(Host& host);
  Host* trainer_of(const InstanceId& id, std::uint64_t run);

  // --- chaos.cpp: which faults happen, and when ---
  void choose_menu();
  void choose_work();
  void inject_later();
  void inject(Fault fault);
  void calm();
  bool now(Fault fault) const { return menu_.has(fault) && now_ < calm_; }
  // A fault of the world by its name, as the emulator takes it.
  void inject_in_world(const char* name, const std::map<std::string, std::string>& arguments);
  Host* any_host();

  // --- fault_kinds.cpp: one function a kind ---
  void interrupt(Host& host, InterruptionAction action, Duration lead, const char* words);
  void inject_instance_fault(Fault fault, Host& host);
  void inject_cloud_fault(Fault fault);
  void close_zones(Fault fault);
  void inject_disk_fault(Fault fault);
  void finish_in_a_notice(Host& host);

  // --- operator.cpp: what an operator does, by mistake and to mend ---
  void inject_operator_fault(Fault fault);
  bool raise_target(int target);  // false: refused while EC2 carries out the one before
  void end_run();
  void add_second_volume();
  void delete_volume();
  void make_volume(const Zone& zone, bool tagged);
  void come_back();
  void mend();

  // --- namesake.cpp: another job of the name, and a volume that is back ---
  void choose_others();
  void choose_fleet_tags();
  void add_namesake();
  void end_namesake();
  void restore_later(const VolumeId& id, bool again);
  void leave_behind();
  void judge_others(const decide::Command& command);
  // It is none of the job's history, or of its past.
  bool is_aside(const VolumeId& id) const { return strays_.count(id) || past_.count(id); }

  // --- judge.cpp ---
  void broken(const std::string& words);
  void judge_start(const Host& host);
  void judge_write(const Host& host, const char* what);
  void judge_effect(const Host& host, const decide::Command& command);
  void judge_removal(const VolumeId& removed);
  void judge_durable(const char* what);
  void judge_cancel(const InstanceId& caller);
  void judge_surrender(const InstanceId& caller);
  void judge_end();
  void judge_rest();
  bool is_result_there() const;

  // --- judge_share.cpp ---
  void judge_share_write(const Host& host, const char* what);
  void judge_on_share(const decide::Command& command);
  void judge_release(const Host& host);
  void judge_many(const Host& host);
  bool is_target_hidden(const Host& host) const;
  void expect_release(const Host& host, Time deadline);
  void judge_run(const Host& host);

  // --- judge_calls.cpp ---
  // `asked`: by the agent that runs; else by one that died meanwhile.
  void judge_call(const InstanceId& caller, const decide::Command& command, bool asked);
  void judge_detach(const InstanceId& caller, const decide::DetachVolume& command, bool asked);
  void judge_promotion(const VolumeId& candidate);
  bool is_claim_unseen(const Host& host) const;  // judge_claims.cpp
  void judge_first_write(const Host& host);
  void judge_hold(const Host& host);
  void judge_copy(const decide::CreateVolume& command, const VolumeId& made);

  bool record_;
  Choice choice_;
  std::optional<Script> script_;
  std::vector<std::uint64_t> fired_;
  std::uint64_t single_faults_ = 0;
  bool lose_answer_ = false;
  world::Random random_;      // how long things take
  world::Random dice_;        // does this call or work fail?
  world::Random bus_;         // which machine lacks a GPU?
  world::Random shelf_;       // has the job a volume of data?
  world::Random others_;      // when does another's volume appear?
  world::Random tags_;        // are a fleet's tags late?
  world::Random fence_dice_;  // what S3 does with the job's epoch
  world::Random left_dice_;   // what is left behind?
  world::Random luck_;  // of one fault, seeded again for each: leaving one out changes no other
  world::World world_;
  Menu menu_;
  Work work_;
  decide::Policy policy_;
  decide::Policy to_fill_;  // a preparer's
  std::set<InstanceId> preparers_;
  int to_prepare_ = 0;          // so many times a person tries it
  Time prepared_from_;          // when first
  Duration launched_after_{0};  // the fleet, of which a person thinks later
  bool prepared_ = false;       // and marked so
  Fleet fleet_;
  static constexpr Time kBegin{std::chrono::hours(1)};
  Time now_ = kBegin;
  Time calm_;  // from here on nothing breaks any more
  Time limit_;
  std::vector<Appointment> agenda_;  // a heap: the earliest first, equal times in their order
  std::map<InstanceId, Host> hosts_;
  std::map<VolumeId, Disk> disks_;
  Share share_;
  Fence fence_;
  Bucket bucket_;
  Time target_since_ = kBegin;  // of the fleet
  std::map<SnapshotId, Disk> images_;
  SnapshotId source_;                       // of the data; the user's
  std::map<std::string, VolumeId> copies_;  // by what was asked for
  std::int64_t durable_ = -1;               // the newest step that a trainer called durable
  // Starts of trainers since the last durable checkpoint; those that the ledger may have beside
  // them; and agents that were killed after they gave up.
  std::uint64_t starts_in_vain_ = 0, starts_counted_ = 0, killed_giving_up_ = 0;
  std::uint64_t ends_in_vain_ = 0;   // of trainers that failed, since then
  std::uint64_t given_back_ = 0;     // machines, since a trainer was started or the job given up
  Duration instance_time_{0};        // of all instances together
  Time result_at_ = decide::kNever;  // since when it is where the job is published
  std::uint32_t sends_failed_ = 0;
  Time git_back_, revision_back_;  // until then git is out of reach, or the revision
  std::set<VolumeId> strays_;      // users' volumes that are not the job's
  std::set<VolumeId> namesakes_;   // of them, another job's of the same name
  std::set<SnapshotId> namesake_snapshots_;
  std::set<VolumeId> past_;  // deleted for their copies, and there again; of a former line
  std::set<SnapshotId> past_snapshots_;
  bool needs_person_ = false;  // something happened that only a person mends
  bool awaited_ = false;       // an operator will act soon
  decide::Surrender surrender_ = decide::Surrender::None;
  Time tidying_since_ = decide::kNever, cancelled_ = tidying_since_;  // of who ended the fleet
  std::uint64_t gibibytes_ = 10;                                      // of the job's volume
  double dollars_ = 0.9;                                              // of an instance-hour
  std::uint64_t numbers_ = 0;
  std::deque<std::string> transcript_;
  Verdict verdict_;
};

}  // namespace spotter::simulate

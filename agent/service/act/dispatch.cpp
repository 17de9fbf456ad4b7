// Which class carries out which effect, and where: at once, at AWS concurrently, or on this
// machine one after the other. An effect that has no line here does not compile.
#include "agent/service/act/performer.hpp"

namespace spotter::act {

using namespace decide;  // the effects' names; act's own classes are Cloud, Local, Trainer

struct Performer::Dispatch {
  Performer& self;
  const Effect& effect;

  // The command is copied into the work, which may outlive the effects of its step.
  template <class Call>
  void at_aws(Call call) const {
    self.start({effect, [&it = self, call](Duration limit) { return call(it, limit); }, false});
  }
  template <class Call>
  void here(Call call) const {
    self.queue({effect, [&it = self, call](Duration limit) { return call(it, limit); }, true});
  }

  void operator()(const Abandon& c) const { self.abandon(c.effect); }
  void operator()(const Exit&) const { self.dependencies_.exit(); }
  void operator()(const StopTrainer& c) const { self.answer(effect.id, self.trainer_.stop(c)); }
  void operator()(const PaceTrainer& c) const { self.answer(effect.id, self.trainer_.pace(c)); }
  void operator()(const KillTrainer&) const { self.answer(effect.id, self.trainer_.kill()); }

  void operator()(const ReadIdentity&) const {
    at_aws([](Performer& it, Duration) { return it.dependencies_.read_identity(); });
  }
  void operator()(const ReadFleet& c) const {
    at_aws([c](Performer& it, Duration limit) { return it.cloud_.read_fleet(c.instance, limit); });
  }
  void operator()(const SurveyStorage& c) const {
    at_aws([c](Performer& it, Duration limit) {
      Home* const home = it.home_.get();
      return home != nullptr ? home->survey(limit) : it.cloud_.survey(c.line, limit);
    });
  }
  void operator()(const AttachVolume& c) const {
    at_aws([c](Performer& it, Duration limit) { return it.cloud_.attach(c, limit); });
  }
  void operator()(const DetachVolume& c) const {
    at_aws([c](Performer& it, Duration limit) { return it.cloud_.detach(c, limit); });
  }
  void operator()(const ClaimVolume& c) const {
    at_aws([c](Performer& it, Duration limit) { return it.cloud_.claim(c, limit); });
  }
  void operator()(const CreateSnapshot& c) const {
    at_aws([c](Performer& it, Duration limit) { return it.cloud_.create_snapshot(c, limit); });
  }
  void operator()(const CreateVolume& c) const {
    at_aws([c](Performer& it, Duration limit) { return it.cloud_.create_volume(c, limit); });
  }
  void operator()(const MarkVerified& c) const {
    at_aws([c](Performer& it, Duration limit) { return it.cloud_.mark_verified(c.volume, limit); });
  }
  void operator()(const PromoteVolume& c) const {
    at_aws([c](Performer& it, Duration limit) { return it.cloud_.promote(c, limit); });
  }
  void operator()(const MarkPrepared& c) const {
    at_aws([c](Performer& it, Duration limit) { return it.cloud_.mark_prepared(c.volume, limit); });
  }
  void operator()(const WriteEpoch& c) const {
    at_aws([c](Performer& it, Duration limit) {
      Home* const home = it.home_.get();
      return home != nullptr ? home->write(c.epoch, limit) : it.cloud_.write_epoch(c.epoch, limit);
    });
  }
  void operator()(const DeleteVolume& c) const {
    at_aws([c](Performer& it, Duration limit) { return it.cloud_.delete_volume(c.volume, limit); });
  }
  void operator()(const DeleteSnapshot& c) const {
    at_aws([c](Performer& it, Duration limit) {
      return it.cloud_.delete_snapshot(c.snapshot, limit);
    });
  }
  void operator()(const CancelFleet& c) const {
    at_aws([c](Performer& it, Duration limit) { return it.cloud_.cancel_fleet(c.fleet, limit); });
  }
  void operator()(const ScaleFleetToZero& c) const {
    at_aws([c](Performer& it, Duration limit) { return it.cloud_.scale_to_zero(c.fleet, limit); });
  }
  void operator()(const GiveBackInstance& c) const {
    at_aws([c](Performer& it, Duration limit) {
      return it.cloud_.leave_fleet({}, c.instance, std::nullopt, limit);
    });
  }
  void operator()(const LeaveFleet& c) const {
    at_aws([c](Performer& it, Duration limit) {
      return it.cloud_.leave_with_place(c.fleet, c.instance, limit);
    });
  }
  void operator()(const CompleteLifecycle& c) const {
    at_aws([c](Performer& it, Duration limit) {
      return it.cloud_.complete_lifecycle(c.fleet, c.instance, limit);
    });
  }

  void operator()(const MarkDone& c) const {
    if (c.volume.empty())  // a file on the share
      return here([](Performer& it, Duration limit) { return it.local_.mark_done(limit); });
    at_aws([c](Performer& it, Duration limit) { return it.cloud_.mark_done(c.volume, limit); });
  }

  void operator()(const LookAtHost&) const {
    here([](Performer& it, Duration limit) { return it.look_at_host(limit); });
  }
  void operator()(const FindDevice& c) const {
    here([c](Performer& it, Duration limit) { return it.local_.find_device(c, limit); });
  }
  void operator()(const InspectDisk& c) const {
    here([c](Performer& it, Duration limit) { return it.local_.inspect(c.device, limit); });
  }
  void operator()(const MakeFilesystem& c) const {
    here([c](Performer& it, Duration limit) { return it.local_.make_filesystem(c.device, limit); });
  }
  void operator()(const Mount& c) const {
    here([c](Performer& it, Duration limit) { return it.local_.mount(c, limit); });
  }
  void operator()(const Unmount& c) const {
    here([c](Performer& it, Duration limit) { return it.unmount(c, limit); });
  }
  void operator()(const PrepareShare&) const {
    here([](Performer& it, Duration limit) { return it.prepare_share(limit); });
  }
  void operator()(const ReleaseShare&) const {
    here([](Performer& it, Duration limit) { return it.release_share(limit); });
  }
  void operator()(const PrepareData& c) const {
    here([c](Performer& it, Duration limit) { return it.data_.prepare(c, limit); });
  }
  void operator()(const ReleaseData& c) const {
    here([c](Performer& it, Duration limit) { return it.data_.release(c, limit); });
  }
  void operator()(const ReadLedger&) const {
    here([](Performer& it, Duration limit) { return it.local_.read_ledger(limit); });
  }
  void operator()(const WriteLedger& c) const {
    here([c](Performer& it, Duration limit) { return it.write_ledger(c, limit); });
  }
  void operator()(const SyncStorage&) const {
    here([](Performer& it, Duration limit) { return it.sync(limit); });
  }
  void operator()(const VerifyCheckpoints& c) const {
    here([c](Performer& it, Duration limit) { return it.verify(c, limit); });
  }
  void operator()(const AwaitGpus&) const {
    here([](Performer& it, Duration limit) { return it.local_.await_gpus(limit); });
  }
  void operator()(const FetchCode&) const {
    here([](Performer& it, Duration limit) { return it.fetch_code(limit); });
  }
  void operator()(const FillVolume& c) const {
    here([c](Performer& it, Duration limit) { return it.local_.fill(c.volume, limit); });
  }
  void operator()(const StartTrainer& c) const {
    here([c](Performer& it, Duration limit) { return it.start_trainer(c, limit); });
  }
};

void Performer::perform(const Effect& effect) { std::visit(Dispatch{*this, effect}, effect.what); }

}  // namespace spotter::act

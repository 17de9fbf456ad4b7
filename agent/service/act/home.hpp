// A job's home in a bucket: its head (wire/head.hpp), who may write, and the way of the files there
// and back (tier/home.hpp, by the verbs of a process with the trainer's rights).
#pragma once

#include <memory>
#include <set>

#include "agent/aws/aws_client.hpp"
#include "agent/config/job.hpp"
#include "agent/decide/effect.hpp"
#include "agent/decide/event.hpp"
#include "agent/io/asio.hpp"
#include "agent/io/files.hpp"
#include "agent/service/act/at_s3.hpp"
#include "agent/service/act/local.hpp"
#include "agent/service/act/trainer_keys.hpp"
#include "agent/wire/head.hpp"

namespace spotter::act {

class Home : Pinned {
 public:
  struct Parts {
    const config::Job& job;
    AwsClient& aws;
    Local& local;
    TrainerKeys& keys;
    std::string run_directory;
  };
  // REQUIRES: the job's storage is a bucket; all that the parts refer to outlives this.
  explicit Home(Parts parts)
      : parts_(std::move(parts)),
        at_(*parts_.job.kept_at()),
        s3_(patience_with_s3()),
        head_(s3_, {parts_.job.headed_at()->bucket,
                    parts_.job.headed_at()->key + std::string(wire::head_name)}) {}

  ~Home() { end_renewing(); }

  using Answer = asio::awaitable<decide::Happening>;

  // This machine, as the metadata service says; the holder's name from then on, unless it has one.
  void is_instance(const InstanceId& instance) { instance_ = instance; }

  // StorageSurveyed, with the epoch and its holder. A holder that EC2 does not know, or that is no
  // instance, is Gone when it has not written for a whole lease, by S3's own clock.
  Answer survey(Duration limit);
  // EpochWritten; Failure::Conflict when the head is not of the epoch before it.
  Answer write(decide::Epoch epoch, Duration limit);
  // Makes the folder here what is committed. Mounted.
  Answer bring(Duration limit);
  // Keeps what is not in the bucket yet, and commits it. LedgerWritten; Failure::Conflict when the
  // head is of another epoch than `epoch`, or (0: of an earlier session's trainer, before anybody
  // looked) of another holder. `kept` is what to say of it.
  Answer keep(std::uint32_t epoch, bool whole, Duration limit, decide::HomeKept& kept);
  // Requests to S3 since this was asked last, those of the verbs among them.
  s3::Tally take_requests();

 private:
  using Finding = Result<wire::SeenHead, decide::EffectFailed>;

  InstanceId self();
  asio::awaitable<Finding> find(Duration limit);
  asio::awaitable<Finding> without_head(Duration limit);
  Finding judged(const Register::Version& version) const;
  asio::awaitable<decide::HolderState> state_of(InstanceId holder, Duration age, Duration limit);
  asio::awaitable<Result<verbs::Home, decide::EffectFailed>> described(std::uint32_t epoch,
                                                                       std::string id);
  void count(const s3::Tally& requests);
  s3::Tally requests() const;  // since take_requests()
  // Reads the head, and writes what is made of it in the place of what was read. Returns what was
  // there before; Failure::Conflict: another epoch is there.
  asio::awaitable<Finding> change(std::function<wire::HeadChange(const wire::SeenHead&)> made_of,
                                  Duration limit);
  std::uint32_t held_before(const decide::Epoch& old, const InstanceId& holder) const;

  // Fails, with the reason, if another agent has the folder here: then nothing may be done in it.
  std::optional<decide::EffectFailed> claim_folder();
  // Once a lease, as long as the epoch is ours, whatever else goes on.
  struct Renewal {
    explicit Renewal(const asio::any_io_executor& executor) : timer(executor) {}
    asio::steady_timer timer;
    std::uint32_t epoch = 0;
    bool over = false;
  };
  void begin_renewing(const asio::any_io_executor& executor, std::uint32_t epoch);
  void end_renewing();
  asio::awaitable<void> renew(std::shared_ptr<Renewal> renewal);
  Parts parts_;
  wire::S3Location at_;
  S3Client s3_;
  Register head_;
  s3::Tally counted_, taken_;  // of others; when take_requests() was called last
  bool committed_ = false;     // by the last keep()
  s3::Tally uncounted_;        // that were taken, and that no committed ledger has
  InstanceId instance_;
  InstanceId self_;
  std::uint32_t epoch_ = 0;  // that we wrote last
  std::shared_ptr<Renewal> renewal_;
  io::Descriptor folder_;  // of the home here, locked as long as this lives
  // A commit without an answer, of this session or the one before it, may still be carried out:
  // until a write of the head is known to have followed it.
  bool unsure_ = true;
  std::uint32_t held_ = 0;      // the epoch before it, where that was ours and nobody came between
  std::set<std::string> said_;  // of what is kept, to a person: once
};

}  // namespace spotter::act

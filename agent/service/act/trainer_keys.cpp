#include "agent/service/act/trainer_keys.hpp"

#include <spdlog/spdlog.h>

#include "agent/aws/formats/ec2_places.hpp"
#include "agent/aws/formats/services.hpp"
#include "agent/job/trainer_role.hpp"

namespace spotter::act {
namespace {

// Of one call to STS with its retries: by then SDKs have given up, and ask again.
constexpr Duration patience{20'000};
constexpr std::size_t longest_session = 64;

tl::unexpected<CallError> trouble(CallError::Kind kind, std::string message) {
  CallError error{.kind = kind, .message = std::move(message)};
  return tl::unexpected(std::move(error));
}

}  // namespace

TrainerKeys::TrainerKeys(Parts parts)
    : parts_(std::move(parts)),
      keys_(parts_.context, [this] { return load(); }),
      endpoint_(parts_.context, {parts_.run_directory, parts_.job.trainer.user}, keys_,
                [this] { return arn_; }) {}

asio::awaitable<Result<wire::Credentials, CallError>> TrainerKeys::load() {
  return config::has_instances_role(parts_.job.trainer) ? load_own() : assume();
}

asio::awaitable<Result<wire::Credentials, CallError>> TrainerKeys::load_own() {
  auto getting = parts_.own.get();
  auto keys = co_await std::move(getting);
  if (!keys) co_return trouble(CallError::Kind::NoCredentials, keys.error().message);
  if (!keys->expiration)
    co_return trouble(CallError::Kind::Other, "the agent's own keys never expire: not handed on");
  co_return std::move(*keys);
}

asio::awaitable<Result<std::string, CallError>> TrainerKeys::role_arn() {
  const config::Trainer& trainer = parts_.job.trainer;
  if (trainer.role.starts_with("arn:")) co_return trainer.role;
  auto asking = parts_.aws.call(wire::GetCallerIdentity{}, patience);
  const auto who = co_await std::move(asking);
  if (!who) co_return tl::unexpected(who.error());
  std::string arn = trainers_role_arn(trainer, *who);
  if (arn.empty())
    co_return trouble(CallError::Kind::Permission,
                      who->arn + " is no role, and has none beside it");
  co_return arn;
}

asio::awaitable<Result<wire::Credentials, CallError>> TrainerKeys::assume() {
  if (arn_.empty()) {
    auto finding = role_arn();
    auto arn = co_await std::move(finding);
    if (!arn) co_return tl::unexpected(std::move(arn.error()));
    arn_ = std::move(*arn);
  }
  wire::AssumeRole request{arn_, ("spotter-" + parts_.job.name.str()).substr(0, longest_session)};
  auto assuming = parts_.aws.call(std::move(request), patience);
  co_return co_await std::move(assuming);
}

bool TrainerKeys::is_led_elsewhere() const {
  const config::Trainer& trainer = parts_.job.trainer;
  for (const char* name : {container_uri, container_relative_uri})
    if (trainer.env.contains(name) || trainer.secrets.contains(name)) return true;
  return false;
}

// Asks STS only when the trainer asks: it may not use AWS at all, in a network without STS.
asio::awaitable<Result<TrainerKeys::Variables, CallError>> TrainerKeys::offer_usual() {
  auto getting = parts_.own.get();
  const auto own = co_await std::move(getting);
  // The metadata service may not answer for a while: then the trainer asks later.
  const bool role = own ? own->expiration.has_value() : parts_.on_instance();
  if (!role) co_return Variables{};
  auto variables = endpoint_.open();
  if (!variables) co_return trouble(CallError::Kind::Transient, variables.error().message);
  asio::co_spawn(parts_.context, try_usual(), asio::detached);
  co_return std::move(*variables);
}

asio::awaitable<void> TrainerKeys::try_usual() {
  auto getting = keys_.get();
  const Result<wire::Credentials, CallError> keys = co_await std::move(getting);
  if (keys) co_return;
  spdlog::warn(
      "the trainer has no credentials at AWS while its role cannot be taken: {}. `spotter iam "
      "roles` makes it; trainer.role of job.yaml names another, or `{}` for the instance's own",
      keys.error().message, config::instances_role);
}

asio::awaitable<Result<TrainerKeys::Variables, CallError>> TrainerKeys::offer() {
  const config::Trainer& trainer = parts_.job.trainer;
  const bool own = config::has_instances_role(trainer);
  const bool usual = trainer.role.empty();
  if (is_led_elsewhere() || ((own || usual) && trainer.inherits)) co_return Variables{};
  if (usual) {
    auto offering = offer_usual();
    co_return co_await std::move(offering);
  }
  // Only the trainer needs them; asked for here so that a mistake is reported before it starts.
  auto getting = keys_.get();
  const Result<wire::Credentials, CallError> keys = co_await std::move(getting);
  const bool passing =
      own && !keys && keys.error().kind == CallError::Kind::NoCredentials && parts_.on_instance();
  if (!keys && own && !passing) co_return Variables{};
  if (!keys && !own) co_return tl::unexpected(keys.error());
  auto variables = endpoint_.open();
  if (!variables) co_return trouble(CallError::Kind::Transient, variables.error().message);
  co_return std::move(*variables);
}

// "arn:aws:sts::123456789012:assumed-role/spotter/i-..." has partition, account and name of ours.
std::string trainers_role_arn(const config::Trainer& trainer, const wire::CallerIdentity& who) {
  if (trainer.role.starts_with("arn:")) return trainer.role;
  constexpr std::string_view assumed = ":assumed-role/";
  std::string ours;
  if (const auto at = who.arn.find(assumed); at != who.arn.npos) {
    ours = who.arn.substr(at + assumed.size());
    ours = ours.substr(0, ours.find('/'));
  }
  if (trainer.role.empty() && ours.empty()) return {};
  const auto partition = who.arn.find(':', who.arn.find(':') + 1);
  return who.arn.substr(0, partition) + ":iam::" + who.account + ":role/" +
         config::trainers_role(trainer, ours);
}

}  // namespace spotter::act

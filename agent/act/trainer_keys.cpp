#include "agent/act/trainer_keys.hpp"

#include "agent/wire/ec2_places.hpp"
#include "agent/wire/sts.hpp"

namespace spotter::act {
namespace {

// Of one question to STS, with its repetitions: SDKs have given up by then, and ask again.
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

asio::awaitable<KeysResult> TrainerKeys::load() {
  return parts_.job.trainer.role.empty() ? load_own() : assume();
}

asio::awaitable<KeysResult> TrainerKeys::load_own() {
  auto getting = parts_.own.get();
  auto keys = co_await std::move(getting);
  if (!keys) co_return trouble(CallError::Kind::NoCredentials, keys.error().message);
  if (!keys->expiration)
    co_return trouble(CallError::Kind::Other, "the agent's own keys never expire: not handed on");
  co_return std::move(*keys);
}

// "arn:aws:sts::123456789012:assumed-role/spotter/i-..." has partition and account of ours.
asio::awaitable<CallResult<std::string>> TrainerKeys::role_arn() {
  const std::string& role = parts_.job.trainer.role;
  if (role.starts_with("arn:")) co_return role;
  auto asking = parts_.aws.call(wire::GetCallerIdentity{}, patience);
  const auto who = co_await std::move(asking);
  if (!who) co_return tl::unexpected(who.error());
  const std::string arn = who->arn;
  const auto end = arn.find(':', arn.find(':') + 1);
  co_return arn.substr(0, end) + ":iam::" + who->account + ":role/" + role;
}

asio::awaitable<KeysResult> TrainerKeys::assume() {
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

asio::awaitable<CallResult<TrainerKeys::Variables>> TrainerKeys::offer() {
  const bool own = parts_.job.trainer.role.empty();
  if (is_led_elsewhere() || (own && parts_.job.trainer.inherits)) co_return Variables{};
  // Asked for here, although only the trainer needs them: what is wrong is said before it starts.
  auto getting = keys_.get();
  const KeysResult keys = co_await std::move(getting);
  // An instance's metadata may be silent for a while: then the trainer asks later.
  const bool passing =
      own && !keys && keys.error().kind == CallError::Kind::NoCredentials && parts_.on_instance();
  if (!keys && own && !passing) co_return Variables{};
  if (!keys && !own) co_return tl::unexpected(keys.error());
  auto variables = endpoint_.open();
  if (!variables) co_return trouble(CallError::Kind::Transient, variables.error().message);
  co_return std::move(*variables);
}

}  // namespace spotter::act

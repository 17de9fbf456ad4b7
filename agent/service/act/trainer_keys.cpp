#include "agent/service/act/trainer_keys.hpp"

#include <openssl/crypto.h>
#include <pwd.h>
#include <spdlog/spdlog.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstring>

#include "agent/aws/formats/services.hpp"
#include "agent/config/trainer_role.hpp"
#include "agent/io/files.hpp"
#include "agent/io/kernel.hpp"

namespace spotter::act {
namespace {

// botocore begins to ask for new keys a quarter of an hour before they expire: by then they are
// loaded.
constexpr std::chrono::minutes refresh_before_expiry{20};
// A call that begins with these keys has to end before they expire.
constexpr std::chrono::minutes last_use{1};
constexpr std::chrono::seconds pause_after_failure{2};

constexpr std::string_view path = "/credentials";
constexpr const char* kept_name = "trainer-keys";
constexpr std::size_t digits = 64;
constexpr std::uint16_t first_unprivileged = 1024;

// The port of "45123-0f3a...", 0 for anything else: the trainer owns the file and may have
// written to it.
std::uint16_t port_of(std::string_view token) {
  std::uint16_t port = 0;
  const char* end = token.data() + token.size();
  const auto [after, failed] = std::from_chars(token.data(), end, port);
  const std::string_view rest(after, static_cast<std::size_t>(end - after));
  const bool whole = rest.size() == 1 + digits && rest[0] == '-' &&
                     rest.find_first_not_of("0123456789abcdef", 1) == rest.npos;
  return failed == std::errc() && whole && port >= first_unprivileged ? port : 0;
}

// Its time does not depend on how many characters are right.
bool is_same(std::string_view one, std::string_view other) {
  return one.size() == other.size() && CRYPTO_memcmp(one.data(), other.data(), one.size()) == 0;
}

std::vector<uid_t> known(const std::string& user) {
  const passwd* entry = ::getpwnam(user.c_str());
  return entry ? std::vector<uid_t>{entry->pw_uid} : std::vector<uid_t>{};
}

io::LocalResponse refuse(int status, std::string_view code, std::string_view message) {
  return {status, wire::container_error(code, message)};
}

io::LocalResponse refuse(const CallError& error) {
  const bool final =
      error.kind == CallError::Kind::Permission || error.kind == CallError::Kind::Other;
  const std::string code = error.code.empty() ? "CredentialsUnavailable" : error.code;
  return refuse(final ? 403 : 503, code, error.message);  // SDKs ask again after the latter
}

// The limit of one call to STS with its retries: by then SDKs have given up, and ask again.
constexpr Duration patience{20'000};
constexpr std::size_t longest_session = 64;

tl::unexpected<CallError> trouble(CallError::Kind kind, std::string message) {
  CallError error{.kind = kind, .message = std::move(message)};
  return tl::unexpected(std::move(error));
}

}  // namespace

FreshKeys::FreshKeys(asio::io_context& context, Load load, WallClock clock)
    : context_(context),
      load_(std::move(load)),
      clock_(std::move(clock)),
      loaded_(context, asio::steady_timer::time_point::max()) {}

bool FreshKeys::valid_for(std::chrono::seconds margin) const {
  if (!keys_) return false;
  return !keys_->expiration || *keys_->expiration - clock_() > margin;
}

void FreshKeys::begin() {
  if (loading_ || std::chrono::steady_clock::now() < not_before_) return;
  loading_ = true;
  asio::co_spawn(context_, reload(), io::rethrow);
}

asio::awaitable<void> FreshKeys::reload() {
  Result<wire::Credentials, CallError> loaded = co_await load_();
  if (loaded) {
    keys_ = std::move(*loaded);
  } else {
    error_ = std::move(loaded.error());
    not_before_ = std::chrono::steady_clock::now() + pause_after_failure;
  }
  loading_ = false;
  loaded_.cancel();
}

asio::awaitable<Result<wire::Credentials, CallError>> FreshKeys::get() {
  if (!valid_for(refresh_before_expiry)) begin();
  while (loading_ && !valid_for(last_use)) {
    boost::system::error_code woken;
    co_await loaded_.async_wait(asio::redirect_error(asio::use_awaitable, woken));
  }
  if (valid_for(std::chrono::seconds{0})) co_return *keys_;
  co_return tl::unexpected(error_);
}

KeyEndpoint::KeyEndpoint(asio::io_context& context, Place place, FreshKeys& keys,
                         std::function<std::string()> role)
    : context_(context),
      place_(std::move(place)),
      keys_(keys),
      role_(std::move(role)),
      server_(
          context, [this](io::LocalRequest request) { return answer(std::move(request)); },
          known(place_.user)) {}

bool KeyEndpoint::remembered() {
  const auto text = io::read_file(token_file(), 256);
  port_ = text ? port_of(*text) : 0;
  if (port_ != 0) token_ = *text;
  return port_ != 0;
}

// Every user can list root's run directory; only the trainer's user may read this file.
Result<void> KeyEndpoint::remember() {
  const std::string file = token_file();
  TRY(behind("cannot write " + file, io::atomic_write(file, token_, 0400)));
  const passwd* entry = ::getpwnam(place_.user.c_str());
  if (::geteuid() == 0 && entry && ::chown(file.c_str(), entry->pw_uid, entry->pw_gid) != 0)
    return failure("cannot give " + file + " to " + place_.user + ": " + std::strerror(errno));
  return {};
}

void KeyEndpoint::take_kept() {
  char** names = nullptr;
  const int count = ::sd_listen_fds_with_names(1, &names);  // once: it forgets them
  for (int i = 0; i < count; ++i) {
    const int kept = SD_LISTEN_FDS_START + i;
    const bool fits = names[i] == std::string_view(kept_name) && server_.port() == 0 &&
                      port_ != 0 && ::sd_is_socket_inet(kept, AF_INET, SOCK_STREAM, 1, port_) > 0;
    if (!fits || server_.adopt(kept)) ::close(kept);
    std::free(names[i]);
  }
  std::free(names);
}

void KeyEndpoint::resume() {
  const bool known = remembered();
  take_kept();
  if (!known) return;
  asio::co_spawn(context_, bind_again(), io::rethrow);
}

asio::awaitable<void> KeyEndpoint::bind_again() {
  for (bool first = true; server_.port() == 0; first = false) {
    const std::error_code failed = server_.open(port_);
    if (!failed) co_return;
    if (first)
      spdlog::warn(
          "127.0.0.1:{}, where the trainer asks for credentials, is taken ({}); tried again "
          "each second, and until then it goes on with those that it has",
          port_, failed.message());
    co_await io::wait_for(std::chrono::seconds(1));
  }
}

Result<std::map<std::string, std::string>> KeyEndpoint::open() {
  if (server_.port() == 0) {  // no trainer runs, so the port may change
    if (const std::error_code failed = server_.open(0))
      return failure("no port of 127.0.0.1 for the trainer's credentials: " + failed.message());
    const std::string chance = io::random_hex(digits);
    if (chance.empty()) return failure("the kernel gives no random bytes for a token");
    ::sd_notify(0, ("FDSTOREREMOVE=1\nFDNAME=" + std::string(kept_name)).c_str());
    const int listening = server_.listening();
    const std::string keep = "FDSTORE=1\nFDNAME=" + std::string(kept_name);
    ::sd_pid_notify_with_fds(0, 0, keep.c_str(), &listening, 1);
    port_ = server_.port();
    token_ = std::to_string(port_) + "-" + chance;
  }
  TRY(remember());
  return std::map<std::string, std::string>{
      {container_uri, "http://127.0.0.1:" + std::to_string(port_) + std::string(path)},
      {container_token, token_},
      {container_token_file, token_file()}};
}

// Without a token every path gets the same answer.
asio::awaitable<io::LocalResponse> KeyEndpoint::answer(io::LocalRequest request) {
  if (!is_same(request.authorization, token_))
    co_return refuse(request.authorization.empty() ? 401 : 403, "NotAuthorized",
                     "the Authorization header is not the job's token");
  if (request.target != path) co_return refuse(404, "NotFound", "there is " + std::string(path));
  if (request.method != "GET") co_return refuse(405, "MethodNotAllowed", "GET only");
  const Result<wire::Credentials, CallError> keys = co_await keys_.get();
  if (!keys) co_return refuse(keys.error());
  co_return io::LocalResponse{200, wire::container_credentials(*keys, role_())};
}

TrainerKeys::TrainerKeys(Parts parts)
    : parts_(std::move(parts)),
      keys_(parts_.context, [this] { return load(); }),
      endpoint_(parts_.context, {parts_.run_directory, parts_.job.trainer.user}, keys_,
                [this] { return arn_; }) {}

asio::awaitable<Result<wire::Credentials, CallError>> TrainerKeys::load() {
  return config::has_instances_role(parts_.job.trainer) ? load_own() : assume();
}

asio::awaitable<Result<wire::Credentials, CallError>> TrainerKeys::load_own() {
  auto keys = co_await parts_.aws.credentials();
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
  std::string arn = config::trainers_role_arn(trainer, *who);
  if (arn.empty())
    co_return trouble(CallError::Kind::Permission,
                      who->arn + " is no role, and has none beside it");
  co_return arn;
}

asio::awaitable<Result<wire::Credentials, CallError>> TrainerKeys::assume() {
  if (arn_.empty()) {
    auto arn = co_await role_arn();
    if (!arn) co_return tl::unexpected(std::move(arn.error()));
    arn_ = std::move(*arn);
  }
  wire::AssumeRole request{arn_, ("spotter-" + parts_.job.name.str()).substr(0, longest_session)};
  if (parts_.job.trainer.role.empty()) {  // else the person has named one for this job
    const std::size_t from = arn_.find(':') + 1;
    auto policy =
        config::session_policy(parts_.job, arn_.substr(from, arn_.find(':', from) - from));
    if (!policy) co_return trouble(CallError::Kind::Other, policy.error().message);
    request.policy = *std::move(policy);
  }
  auto keys = co_await parts_.aws.call(std::move(request), patience);
  // By this machine's clock, as the trainer's SDKs read it.
  if (keys && keys->expiration) *keys->expiration -= parts_.aws.aws_is_ahead();
  co_return keys;
}

bool TrainerKeys::is_led_elsewhere() const {
  const config::Trainer& trainer = parts_.job.trainer;
  for (const char* name : {container_uri, container_relative_uri})
    if (trainer.env.contains(name) || trainer.secrets.contains(name)) return true;
  return false;
}

// Asks STS only when the trainer asks: it may not use AWS at all, in a network without STS.
asio::awaitable<Result<TrainerKeys::Variables, CallError>> TrainerKeys::offer_usual() {
  const auto own = co_await parts_.aws.credentials();
  // The metadata service may not answer for a while: then the trainer asks later.
  const bool role = own ? own->expiration.has_value() : parts_.on_instance();
  if (!role) co_return Variables{};
  auto variables = endpoint_.open();
  if (!variables) co_return trouble(CallError::Kind::Transient, variables.error().message);
  asio::co_spawn(parts_.context, try_usual(), asio::detached);
  co_return std::move(*variables);
}

asio::awaitable<void> TrainerKeys::try_usual() {
  const Result<wire::Credentials, CallError> keys = co_await keys_.get();
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
    co_return co_await offer_usual();
  }
  // Only the trainer needs them; asked for here so that a mistake is reported before it starts.
  const Result<wire::Credentials, CallError> keys = co_await keys_.get();
  const bool passing =
      own && !keys && keys.error().kind == CallError::Kind::NoCredentials && parts_.on_instance();
  if (!keys && own && !passing) co_return Variables{};
  if (!keys && !own) co_return tl::unexpected(keys.error());
  auto variables = endpoint_.open();
  if (!variables) co_return trouble(CallError::Kind::Transient, variables.error().message);
  co_return std::move(*variables);
}

}  // namespace spotter::act

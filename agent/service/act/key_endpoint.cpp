#include "agent/service/act/key_endpoint.hpp"

#include <openssl/crypto.h>
#include <pwd.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstring>

#include "agent/aws/formats/services.hpp"
#include "agent/io/files.hpp"
#include "agent/io/kernel.hpp"

namespace spotter::act {
namespace {

constexpr std::string_view path = "/credentials";
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

}  // namespace

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
  if (const auto written = io::atomic_write(file, token_, 0400); !written)
    return failure("cannot write " + file + ": " + written.error().message());
  const passwd* entry = ::getpwnam(place_.user.c_str());
  if (::geteuid() == 0 && entry && ::chown(file.c_str(), entry->pw_uid, entry->pw_gid) != 0)
    return failure("cannot give " + file + " to " + place_.user + ": " + std::strerror(errno));
  return {};
}

void KeyEndpoint::resume() {
  if (!remembered()) return;
  asio::co_spawn(context_, bind_again(), io::rethrow);
}

asio::awaitable<void> KeyEndpoint::bind_again() {
  asio::steady_timer timer(context_);
  for (bool first = true; server_.port() == 0; first = false) {
    const std::error_code failed = server_.open(port_);
    if (!failed) co_return;
    if (first)
      spdlog::warn(
          "127.0.0.1:{}, where the trainer asks for credentials, is taken ({}); tried again "
          "each second, and until then it goes on with those that it has",
          port_, failed.message());
    timer.expires_after(std::chrono::seconds(1));
    auto waiting = timer.async_wait(asio::use_awaitable);
    co_await std::move(waiting);
  }
}

Result<std::map<std::string, std::string>> KeyEndpoint::open() {
  if (server_.port() == 0) {  // no trainer runs, so the port may change
    if (const std::error_code failed = server_.open(0))
      return failure("no port of 127.0.0.1 for the trainer's credentials: " + failed.message());
    const std::string chance = io::random_hex(digits);
    if (chance.empty()) return failure("the kernel gives no random bytes for a token");
    port_ = server_.port();
    token_ = std::to_string(port_) + "-" + chance;
  }
  if (const auto kept = remember(); !kept) return tl::unexpected(kept.error());
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
  auto getting = keys_.get();
  const Result<wire::Credentials, CallError> keys = co_await std::move(getting);
  if (!keys) co_return refuse(keys.error());
  co_return io::LocalResponse{200, wire::container_credentials(*keys, role_())};
}

}  // namespace spotter::act

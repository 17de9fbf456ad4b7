#include "agent/service/member.hpp"

#include <chrono>
#include <optional>

#include "agent/aws/aws_calls.hpp"
#include "agent/io/asio.hpp"
#include "agent/io/kernel.hpp"
#include "agent/service/sense/notices.hpp"

namespace spotter {
namespace {

constexpr int kTries = 10;  // a second apart; systemd waits longer for a start

asio::awaitable<void> ask(asio::io_context& context,
                          std::optional<decide::IdentityRead>& identity) {
  const auto environment = act::Environment::of_this_process();
  io::HttpClient http(context);
  sense::ImdsClient imds(http, command::imds_settings(environment));
  sense::Notices notices(
      imds, {}, [] { return Time(io::boot_time()); }, [](decide::Happening) {});
  asio::steady_timer timer(context);
  for (int tries = 0; tries < kTries && !identity; ++tries) {
    auto asking = notices.read_identity();
    const decide::Happening answer = co_await std::move(asking);
    if (const auto* read = std::get_if<decide::IdentityRead>(&answer)) {
      identity = *read;
      break;
    }
    timer.expires_after(std::chrono::seconds(1));
    co_await timer.async_wait(asio::use_awaitable);
  }
}

}  // namespace

Result<std::string> member_here() {
  asio::io_context context(1);
  std::optional<decide::IdentityRead> identity;
  asio::co_spawn(context, ask(context, identity), io::rethrow);
  context.run();
  if (!identity)
    return failure(
        "the metadata service does not say which instance this is, after which a gang's member is "
        "named; on any other machine `spotter run --job job.yaml --gang NAME` joins the gang");
  return identity->instance.str();
}

}  // namespace spotter

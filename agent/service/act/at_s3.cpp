#include "agent/service/act/at_s3.hpp"

#include "agent/decide/policy.hpp"
#include "agent/wire/head.hpp"

namespace spotter::act {
namespace {

using decide::EffectFailed;
using decide::Failure;

Failure kind_of(s3::Failure::Kind kind) {
  using Kind = s3::Failure::Kind;
  switch (kind) {
    case Kind::NoSuchKey:
    case Kind::Changed:
    case Kind::Exists:
      return Failure::Conflict;
    case Kind::Permission:
    case Kind::Untrusted:  // a wrong clock, or a proxy: a person has to know
      return Failure::Refused;
    case Kind::NoSuchBucket:
    case Kind::Refused:
      return Failure::Rejected;
    case Kind::GivenUp:
      return Failure::Abandoned;
    case Kind::NoCredentials:  // for a moment, while they are renewed
    case Kind::Corrupt:
    case Kind::Unavailable:
      return Failure::Unavailable;
  }
  return Failure::Unavailable;
}

EffectFailed at_fence(Failure failure, const std::string& words) {
  return {failure, false, decide::Detail(words)};
}

Fence::Answer epoch_in(const Register::Version& version, const wire::S3Location& where,
                       const VolumeId& line) {
  if (!version.exists()) return decide::Epoch{};
  const auto epoch = wire::parse_epoch(version.text);
  if (epoch && epoch->line == line) return *epoch;
  const std::string why =
      epoch ? "it is of the volume " + epoch->line.str() : epoch.error().message;
  return tl::unexpected(at_fence(Failure::Rejected, wire::to_url(where) + ": " + why));
}

}  // namespace

EffectFailed failed_at_s3(const s3::Failure& failure, const char* what) {
  const Failure kind = kind_of(failure.kind);
  return {kind, kind == Failure::Abandoned,
          decide::Detail(std::string(what) + ": " + failure.text())};
}

EffectFailed failed_write(const s3::Failure& failure, const char* what) {
  EffectFailed failed = failed_at_s3(failure, what);
  failed.unsettled = failed.unsettled || failed.failure == Failure::Unavailable;
  return failed;
}

Duration patience_with_s3() { return decide::Policy().epoch_call / 3; }

Register Fence::at(const VolumeId& line) {
  return {s3_, {place_.bucket, place_.key + line.str() + ".epoch"}};
}

asio::awaitable<Fence::Answer> Fence::read(VolumeId line, Duration limit) {
  if (!line) co_return decide::Epoch{};
  const Register object = at(line);
  const auto there = co_await object.read(limit);
  if (!there) co_return tl::unexpected(failed_at_s3(there.error(), "the fence"));
  co_return epoch_in(*there, object.where(), line);
}

asio::awaitable<decide::Happening> Fence::write(decide::Epoch epoch, Duration limit) {
  const Register object = at(epoch.line);
  const auto there = co_await object.read(limit / 2);
  if (!there) co_return failed_at_s3(there.error(), "the fence");
  const auto before = epoch_in(*there, object.where(), epoch.line);
  if (!before) co_return before.error();
  const EffectFailed beaten = at_fence(
      Failure::Conflict, "another epoch was written before " + wire::to_url(object.where()));
  if (before->number + 1 != epoch.number) co_return beaten;
  const auto written = co_await object.write(wire::to_json(epoch), there->etag, limit / 2);
  if (!written) co_return failed_write(written.error(), "the fence");
  if (!*written) co_return beaten;
  co_return decide::EpochWritten{};
}

}  // namespace spotter::act

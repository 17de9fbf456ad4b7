#include "agent/service/act/at_s3.hpp"

#include <algorithm>
#include <string>

#include "agent/aws/s3/objects.hpp"
#include "agent/aws/settings/settings.hpp"
#include "agent/wire/head.hpp"

namespace spotter::act {
namespace {

using decide::EffectFailed;
using decide::Failure;

Failure kind_of(s3::Failure::Kind kind) {
  using Kind = s3::Failure::Kind;
  switch (kind) {
    case Kind::NoSuchKey:  // of a conditional write: it was deleted
    case Kind::Changed:
    case Kind::Exists:
      return Failure::Conflict;
    case Kind::Permission:
    case Kind::Untrusted:  // a wrong clock, or a proxy: a person has to know
      return Failure::Refused;
    case Kind::NoSuchBucket:
    case Kind::Refused:
      return Failure::Rejected;
    case Kind::NoCredentials:  // for a moment, while they are renewed
    case Kind::Corrupt:
    case Kind::Unavailable:
      return Failure::Unavailable;
  }
  return Failure::Unavailable;
}

}  // namespace

EffectFailed failed_at_s3(const s3::Failure& failure, const char* what) {
  EffectFailed failed;
  failed.failure = kind_of(failure.kind);
  failed.detail = decide::Detail(std::string(what) + ": " + failure.text());
  return failed;
}

s3::Settings s3_settings(Duration limit) {
  s3::Settings settings;
  settings.environment = Environment::of_this_process();
  settings.patience = std::max<Duration>(limit / 3, Duration(1));
  return settings;
}

namespace {

struct FoundEpoch {
  decide::Epoch epoch;
  std::string etag;  // empty: there is none
};

Result<FoundEpoch, EffectFailed> find_epoch(s3::Client& client, const wire::S3Location& where,
                                            const VolumeId& line) {
  const auto there = s3::read(client, where);
  if (!there && there.error().kind == s3::Failure::Kind::NoSuchKey) return FoundEpoch{};
  if (!there) return tl::unexpected(failed_at_s3(there.error(), "the fence"));
  const auto epoch = wire::parse_epoch(there->bytes);
  if (epoch && epoch->line == line) return FoundEpoch{*epoch, there->object.etag};
  EffectFailed failed;
  failed.failure = Failure::Rejected;
  const std::string why =
      epoch ? "it is of the volume " + epoch->line.str() : epoch.error().message;
  failed.detail = decide::Detail(wire::to_url(where) + ": " + why);
  return tl::unexpected(failed);
}

decide::Happening replace_epoch(const wire::S3Location& where, const decide::Epoch& epoch,
                                Duration limit) {
  s3::Client client(s3_settings(limit));
  const auto before = find_epoch(client, where, epoch.line);
  if (!before) return before.error();
  if (before->epoch.number + 1 != epoch.number) {
    EffectFailed conflict;
    conflict.failure = Failure::Conflict;
    conflict.detail = decide::Detail("another epoch was written before " + wire::to_url(where));
    return conflict;
  }
  const s3::Condition condition{.absent = before->etag.empty(), .etag = before->etag};
  const auto written = s3::put(client, where, wire::to_json(epoch), condition);
  if (written) return decide::EpochWritten{};
  EffectFailed failed = failed_at_s3(written.error(), "the fence");
  failed.unsettled = failed.failure == Failure::Unavailable;
  return failed;
}

}  // namespace

wire::S3Location Fence::at(const VolumeId& line) const {
  return {place_.bucket, place_.key + line.str() + ".epoch"};
}

asio::awaitable<Fence::Answer> Fence::read(VolumeId line, Duration limit) {
  if (!line) co_return decide::Epoch{};
  std::function<Answer()> work = [where = at(line), line, limit]() -> Answer {
    s3::Client client(s3_settings(limit));
    const auto found = find_epoch(client, where, line);
    if (!found) return tl::unexpected(found.error());
    return found->epoch;
  };
  auto reading = apart_.run(std::move(work), limit, "the fence");
  auto answer = co_await std::move(reading);
  if (!answer) co_return tl::unexpected(answer.error());
  co_return std::move(*answer);
}

asio::awaitable<decide::Happening> Fence::write(decide::Epoch epoch, Duration limit) {
  std::function<decide::Happening()> work = [where = at(epoch.line), epoch, limit] {
    return replace_epoch(where, epoch, limit);
  };
  auto writing = apart_.run(std::move(work), limit, "the fence");
  auto answer = co_await std::move(writing);
  co_return answer ? std::move(*answer) : decide::Happening(answer.error());
}

}  // namespace spotter::act

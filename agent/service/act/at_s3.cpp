#include "agent/service/act/at_s3.hpp"

#include <algorithm>
#include <string>

#include "agent/aws/settings/settings.hpp"

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

}  // namespace spotter::act

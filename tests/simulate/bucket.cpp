// A job's home in a bucket, as S3 has it: the head, which is written only in the place of the
// version that was read, and the manifests with all that they name. A request may be refused, slow,
// sent twice by the client, or carried out long after its asker has given it up or is dead.
#include <algorithm>
#include <utility>

#include "tests/simulate/simulation.hpp"
#include "tests/world/s3/conditions.hpp"

namespace spotter::simulate {

using decide::EffectFailed;
using decide::Failure;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

namespace {

constexpr int kMostTries = 4;  // agent/service/act/home.cpp: most_tries

std::string etag_of(const std::string& body) {
  return std::to_string(std::hash<std::string>()(body));
}

Found failed(Failure kind, const char* detail, bool unsettled = false) {
  return tl::unexpected(failure(kind, detail, unsettled));
}

}  // namespace

// Drawn from a sequence of their own: runs on other storage stay the same for each seed.
void Simulation::choose_bucket() {
  world::Random dice(verdict_.seed * 7919 + 11);
  policy_.storage = decide::StorageKind::Bucket;
  share_.folder = true;
  share_.once = policy_.foreground = dice.below(3) == 0;
  constexpr Duration uploads[] = {milliseconds(200), seconds(3), seconds(40), minutes(5)};
  bucket_.transfer = uploads[dice.below(std::size(uploads))];
  for (const Fault fault : {Fault::SecondVolume, Fault::VolumeDeleted, Fault::UntaggedBlank,
                            Fault::ForeignDisk, Fault::KeyForbidden, Fault::DiskReadOnly}) {
    menu_.set(fault, false);
  }
  menu_.set(Fault::Paused, dice.below(2) == 0);
}

// The working copy of the home, on the disk of this machine.
VolumeId Simulation::folder_of(const InstanceId& id) { return VolumeId("home-" + id.str()); }

// Like act::Home::self(): a run on somebody else's machine has a name of its own.
InstanceId Simulation::self_of(const Host& host) const {
  if (!share_.once) return host.id;
  const std::string id = host.id.str();
  return InstanceId("run-" + id.substr(id.find('-') + 1));
}

const Host* Simulation::host_named(const InstanceId& self) const {
  for (const auto& [id, host] : hosts_) {
    if (host.id && self_of(host) == self) return &host;
  }
  return nullptr;
}

// A machine that stands still does nothing, and then all that it was about to do.
void Simulation::when_awake(const InstanceId& id, std::uint64_t run,
                            std::function<void(Host&)> then) {
  Host* its = agent_of(id, run);
  if (!its) return;
  if (now_ >= its->paused_until) return then(*its);
  at_time(its->paused_until, [this, id, run, then] { when_awake(id, run, then); });
}

Found Simulation::head_there() const {
  if (!bucket_.head) {
    if (bucket_.manifests.empty()) return wire::SeenHead{};
    return failed(Failure::Rejected, "the head is gone");
  }
  const auto head = wire::parse_head(bucket_.head->body);
  if (!head) return failed(Failure::Rejected, "no head");
  const auto whole = [](Time time) { return std::chrono::floor<seconds>(time); };
  return wire::SeenHead{*head, bucket_.head->etag,
                        Duration(whole(now_) - whole(bucket_.head->written))};
}

// Whoever wrote it may be gone by now.
Found Simulation::put_head(const wire::Head& head, const std::string& etag,
                           const InstanceId& author) {
  world::s3::Request request{.operation = world::s3::Operation::PutObject};
  if (etag.empty()) request.headers["if-none-match"] = "*";
  if (!etag.empty()) request.headers["if-match"] = "\"" + etag + "\"";
  const auto there = bucket_.head ? std::optional(bucket_.head->etag) : std::nullopt;
  if (const auto refused = world::s3::refuse_write(request, there)) {
    say(author.view(), "      S3: the head of epoch ", head.epoch.number, " refused");
    return failed(Failure::Conflict, "PreconditionFailed");
  }
  wire::Head before;
  if (bucket_.head) before = wire::parse_head(bucket_.head->body).value_or(wire::Head{});
  bucket_.head = {wire::to_json(head), etag_of(wire::to_json(head)), now_};
  say(author.view(), "      S3: the head: epoch ", head.epoch.number, ", step ", head.newest, ", ",
      head.manifest);
  judge_head(before, head, author);
  return wire::SeenHead{};
}

// One request of an agent's process. The caller decides which answers it gives up.
void Simulation::ask_s3(const Host& host, std::function<Found()> carry_out, FoundThen then) {
  enum Fate : std::uint8_t { Refused, Lost, LostForLong, Slow, SentTwice, Fine };
  const bool silent = is_fence_silent();
  const bool fails = fence_fails();
  Fate fate = fails ? Refused : Fine;
  if (fails && !silent) fate = static_cast<Fate>(fence_dice_.below(Fine));
  const auto answer = [this, id = host.id, run = host.agent.run, then](Duration later,
                                                                       const Found& what) {
    at(later, [this, id, run, then, what] {
      when_awake(id, run, [then, what](Host& its) { then(its, what); });
    });
  };
  if (fate == Refused) return answer(milliseconds(800), failed(Failure::Unavailable, "SlowDown"));
  Duration there = between(milliseconds(20), milliseconds(300));
  if (fate == Lost || fate == Slow) there = fence_dice_.within({milliseconds(20), seconds(9)});
  if (fate == LostForLong) there = fence_dice_.within({milliseconds(20), seconds(40)});
  if (fate == Lost || fate == LostForLong) {
    at(there, [carry_out] { (void)carry_out(); });
    const Duration patience = fence_dice_.within({seconds(1), seconds(15)});
    return answer(patience, failed(Failure::Unavailable, "timed out", true));
  }
  Duration back = between(milliseconds(10), milliseconds(200));
  if (fate == Slow) back = fence_dice_.within({milliseconds(20), seconds(40)});
  if (fate == SentTwice) {
    at(there, [carry_out] { (void)carry_out(); });
    there += fence_dice_.within({seconds(1), seconds(4)});
  }
  at(there, [carry_out, answer, back] { answer(back, carry_out()); });
}

// Like act::S3Client::perform(): the caller has an answer by the limit.
FoundThen Simulation::by_the_limit(const Host& host, Duration limit, FoundThen then) {
  const auto open = std::make_shared<bool>(true);
  const FoundThen once = [open, then = std::move(then)](Host& its, const Found& found) {
    if (std::exchange(*open, false)) then(its, found);
  };
  at(std::max(limit, Duration(1)), [this, id = host.id, run = host.agent.run, once] {
    when_awake(id, run, [once](Host& its) {
      once(its, failed(Failure::Unavailable, "S3 did not answer in time", true));
    });
  });
  return once;
}

void Simulation::read_head(const Host& host, FoundThen then) {
  ask_s3(
      host, [this] { return head_there(); }, std::move(then));
}

// Does the same as act::Home::change(): once it is not waited for any more, only the request that
// is under way may still be carried out.
void Simulation::change_head(const Host& host, const HeadChanging& change) {
  HeadChanging bounded = change;
  const auto open = std::make_shared<bool>(true);
  const auto then = [open, then = change.then](Host& its, const Found& found) {
    *open = false;
    then(its, found);
  };
  bounded.then = by_the_limit(host, change.limit, then);
  bounded.goes_on = [open, goes_on = change.goes_on](const Host& its) {
    return *open && (!goes_on || goes_on(its));
  };
  try_to_change_head(host, bounded, 0);
}

void Simulation::try_to_change_head(const Host& host, const HeadChanging& change, int tries) {
  read_head(host, [this, change, tries](Host& its, const Found& before) {
    using Kind = wire::HeadChange::Kind;
    if (!change.goes_on(its)) return;
    if (!before) return change.then(its, before);
    const wire::HeadChange made = change.make(*before);
    if (made.kind == Kind::Enough) return change.then(its, before);
    if (made.kind == Kind::Lost)
      return change.then(its, failed(Failure::Conflict, "another epoch"));
    const auto put = [this, next = made.next, etag = before->etag, author = self_of(its)] {
      return put_head(next, etag, author);
    };
    ask_s3(its, put, [=, this, seen = before, again = made.again](Host& now, const Found& written) {
      if (!change.goes_on(now)) return;
      if (written) return change.then(now, seen);
      const bool beaten = written.error().failure == Failure::Conflict;
      if (beaten && again && tries < kMostTries) return try_to_change_head(now, change, tries + 1);
      EffectFailed why = written.error();
      if (beaten && again) why.failure = Failure::Unavailable;
      why.unsettled = why.failure == Failure::Unavailable;
      change.then(now, tl::unexpected(why));
    });
  });
}

}  // namespace spotter::simulate

#include "agent/service/sweep/claims.hpp"

#include <spdlog/spdlog.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <chrono>
#include <random>

#include "agent/aws/s3/objects.hpp"
#include "agent/io/kernel.hpp"

namespace spotter::command {
namespace {

using sweep::NoAnswer;

}  // namespace

ClaimClerk::ClaimClerk(s3::Settings settings, wire::S3Location prefix, sweep::Owner owner)
    : prefix_(std::move(prefix)),
      owner_(std::move(owner)),
      client_(std::move(settings)),
      event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      thread_([this] { run(); }) {}

ClaimClerk::~ClaimClerk() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_one();
  thread_.join();
  ::close(event_);
}

void ClaimClerk::send(sweep::Request request) {
  const std::lock_guard lock(mutex_);
  work_.emplace_back(std::move(request));
  wake_.notify_one();
}

void ClaimClerk::send(const sweep::Mark& mark) {
  const std::lock_guard lock(mutex_);
  work_.emplace_back(mark);
  wake_.notify_one();
}

void ClaimClerk::send(Record record) {
  const std::lock_guard lock(mutex_);
  work_.emplace_back(std::move(record));
  wake_.notify_one();
}

std::optional<ClaimClerk::Outcome> ClaimClerk::next_answer() {
  const std::lock_guard lock(mutex_);
  if (outcomes_.empty()) {
    eventfd_t ignored = 0;
    ::eventfd_read(event_, &ignored);
    return std::nullopt;
  }
  Outcome first = std::move(outcomes_.front());
  outcomes_.pop_front();
  return first;
}

bool ClaimClerk::is_busy() {
  const std::lock_guard lock(mutex_);
  return working_ || !work_.empty();
}

void ClaimClerk::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    working_ = false;
    // Avoids wait(): that of g++ 12 is not in the C++ library of Amazon Linux 2023.
    while (!wake_.wait_for(lock, std::chrono::hours(1),
                           [this] { return stopping_ || !work_.empty(); }))
      continue;
    if (stopping_) return;
    const Work work = std::move(work_.front());
    work_.pop_front();
    working_ = true;
    lock.unlock();
    std::optional<Outcome> outcome;
    if (const auto* request = std::get_if<sweep::Request>(&work)) {
      outcome = answer(*request);
    } else if (const auto* hint = std::get_if<sweep::Mark>(&work)) {
      if (owns_) mark(*hint);
    } else if (owns_) {
      record(std::get<Record>(work));
    }
    lock.lock();
    if (!outcome) continue;
    outcomes_.push_back(std::move(*outcome));
    ::eventfd_write(event_, 1);
  }
}

wire::S3Location ClaimClerk::at(const std::string& name) const {
  return {prefix_.bucket, prefix_.key + name};
}

// The job's first machine makes the object.
Result<sweep::Owner> ClaimClerk::owner_there() {
  const auto where = at(std::string(sweep::owner_name));
  const auto made = s3::put(client_, where, sweep::to_json(owner_), {.absent = true, .etag = {}});
  if (made) return owner_;
  if (made.error().kind != s3::Failure::Kind::Exists) return failure(made.error().text());
  const auto there = s3::read(client_, where);
  if (!there) return failure(there.error().text());
  auto its = sweep::parse_owner(there->bytes);
  if (!its) return failure(wire::to_url(where) + ": " + its.error().message);
  return its;
}

void ClaimClerk::own(Outcome& outcome) {
  const auto there = owner_there();
  if (!there) {
    outcome.trouble = there.error().message;
    return;
  }
  owns_ = there->id == owner_.id;
  if (owns_) return;
  const std::string ours = there->storage == owner_.storage
                               ? "in another folder there, or in one that not all machines see"
                               : "on " + owner_.storage;
  outcome.foreign = true;
  outcome.trouble =
      "two jobs have this name: these claims are of the one on " + there->storage +
      ", and this one is " + ours +
      "; give one of them another name, or another prefix in claims.at. If the other " +
      "is no more, delete all below " + wire::to_url(prefix_);
}

ClaimClerk::Outcome ClaimClerk::answer(const sweep::Request& request) {
  Outcome outcome{{request.number, NoAnswer{}}, {}};
  if (!owns_) own(outcome);
  if (!owns_) return outcome;
  if (std::holds_alternative<sweep::ListClaims>(request.ask)) {
    outcome.reply.answer = list(outcome.trouble);
  } else if (const auto* wanted = std::get_if<sweep::ReadClaim>(&request.ask)) {
    outcome.reply.answer = read(wanted->index, outcome.trouble);
  } else if (const auto* change = std::get_if<sweep::WriteClaim>(&request.ask)) {
    outcome.reply.answer = write(*change, outcome.trouble);
  }
  return outcome;
}

sweep::Answer ClaimClerk::list(std::string& trouble) {
  std::string date;
  const auto objects = s3::list(client_, prefix_, {.delimiter = "/", .date = &date});
  const auto now = wire::parse_http_date(date);
  if (!objects || !now) {
    trouble = objects ? "S3 says no Date" : objects.error().text();
    return NoAnswer{};
  }
  sweep::Listed listed;
  listed.date = *now;
  for (const auto& object : *objects) {
    const auto name =
        sweep::parse_object_name(std::string_view(object.key).substr(prefix_.key.size()));
    if (!name) continue;
    if (name->kind == "claim") listed.claims.push_back({name->index, object.modified});
    if (name->kind == "ended") listed.ended.push_back(name->index);
    if (name->kind == "given") listed.given.push_back(name->index);
  }
  return listed;
}

sweep::Answer ClaimClerk::read(std::size_t index, std::string& trouble) {
  const auto from = at(sweep::claim_name(index));
  const auto answer = client_.perform({.bucket = from.bucket, .key = from.key});
  if (!answer && answer.error().kind == s3::Failure::Kind::NoSuchKey) return sweep::ReadAnswer{};
  const auto time = [&](const char* header) {
    return answer ? wire::parse_http_date(answer->header(header)) : failure("");
  };
  const auto date = time("date");
  const auto modified = time("last-modified");
  if (!answer || !date || !modified || answer->header("etag").empty()) {
    trouble = answer ? "S3 says no Date, Last-Modified or ETag" : answer.error().text();
    return NoAnswer{};
  }
  sweep::ReadAnswer::Found found{sweep::parse_claim(answer->body),
                                 std::string(answer->header("etag")), *modified};
  return sweep::ReadAnswer{std::move(found), *date};
}

sweep::Answer ClaimClerk::write(const sweep::WriteClaim& write, std::string& trouble) {
  const s3::Condition condition{.absent = write.etag.empty(), .etag = write.etag};
  const auto written =
      s3::put(client_, at(sweep::claim_name(write.index)), sweep::to_json(write.claim), condition);
  if (written) return sweep::Written{*written};
  const auto kind = written.error().kind;
  if (kind == s3::Failure::Kind::Exists || kind == s3::Failure::Kind::NoSuchKey)
    return sweep::NotWritten{};
  trouble = written.error().text();
  return NoAnswer{};
}

// Only a hint: an agent that does not see it reads the claim.
void ClaimClerk::mark(const sweep::Mark& mark) {
  const auto where = at(sweep::hint_name(mark.index, mark.hint));
  if (mark.there)
    (void)s3::put(client_, where, "");
  else
    (void)s3::remove(client_, where);
}

void ClaimClerk::record(const Record& record) {
  const bool known = !record.summary.empty();
  if (known && !s3::put(client_, at(sweep::result_name(record.index)), record.summary)) return;
  mark({record.index, sweep::Hint::Ended, true});
}

}  // namespace spotter::command

namespace spotter {

Time now() { return Time(io::boot_time()); }

sweep::ClaimSettings claim_settings(const config::Job& job, std::size_t count, std::string holder) {
  std::random_device random;
  sweep::ClaimSettings settings;
  settings.experiments = count;
  settings.holder = std::move(holder);
  for (int words = 0; words < 4; ++words) settings.nonce += std::to_string(random()) + ".";
  settings.seed = random();
  settings.lease = job.claims->lease;
  settings.margin = job.claims->lease / 2;
  // An agent tries twice on its machine (config/experiment.cpp).
  settings.most_failures =
      static_cast<std::uint32_t>((job.on_failure.attempts_without_progress + 1) / 2);
  return settings;
}

Claims::Claims(asio::io_context& context, const config::Job& job, sweep::Owner owner,
               Callbacks callbacks)
    : place_(wire::to_url(job.claims->at)),
      callbacks_(std::move(callbacks)),
      clerk_({.environment = act::Environment::of_this_process(), .patience = job.claims->lease},
             job.claims->at, std::move(owner)),
      readable_(context, ::dup(clerk_.descriptor())),
      timer_(context) {
  asio::co_spawn(context, read_answers(), asio::detached);
}

void Claims::begin(sweep::ClaimSettings settings) {
  left_ = false;
  claimant_.emplace(std::move(settings));
  deliver(sweep::Tick{});
}

asio::awaitable<void> Claims::read_answers() {
  for (;;) {
    co_await readable_.async_wait(asio::posix::stream_descriptor::wait_read, asio::use_awaitable);
    while (const auto answer = clerk_.next_answer()) {
      report_trouble(*answer);
      deliver(answer->reply);
    }
  }
}

// Reading a claim shows nothing about write permission, so it does not clear the problem.
void Claims::report_trouble(const command::ClaimClerk::Outcome& outcome) {
  const auto& answer = outcome.reply.answer;
  if (outcome.trouble.empty() && std::holds_alternative<sweep::ReadAnswer>(answer)) return;
  if (outcome.trouble == trouble_) return;
  trouble_ = outcome.trouble;
  if (!trouble_.empty()) spdlog::warn("the claims in {}: {}", place_, trouble_);
  callbacks_.complain(trouble_);
  if (!outcome.foreign) return;
  foreign_ = left_ = true;
  timer_.cancel();
}

void Claims::deliver(const sweep::News& news) {
  if (left_) return;
  for (auto& order : claimant_->on(now(), news)) carry_out(std::move(order));
  set_timer();
}

void Claims::set_timer() {
  if (left_) return;
  // The timer's clock stops while the machine sleeps: looks again within a minute.
  const Time soon = now() + std::chrono::minutes(1);
  const Duration left = std::min(claimant_->wake_at(), soon) - now();
  timer_.expires_after(std::max(Duration(1), left));
  timer_.async_wait([this](boost::system::error_code error) {
    if (!error) deliver(sweep::Tick{});
  });
}

void Claims::carry_out(sweep::Order order) {
  if (auto* request = std::get_if<sweep::Request>(&order)) {
    const auto* pin = std::get_if<sweep::FindParent>(&request->ask);
    if (pin != nullptr) return callbacks_.find_parent(request->number, *pin);
    clerk_.send(std::move(*request));
  } else if (const auto* mark = std::get_if<sweep::Mark>(&order)) {
    clerk_.send(*mark);
  } else if (std::holds_alternative<sweep::Left>(order)) {
    left_ = true;
    timer_.cancel();
  } else if (const auto* complaint = std::get_if<sweep::Complaint>(&order)) {
    const std::string text =
        complaint->text + ", so it is left alone: delete that object to have it run";
    if (wrong_.insert(text).second) spdlog::error("{}", text);
    callbacks_.complain(text);
  } else {
    callbacks_.carry_out(std::move(order));
  }
}

void Claims::mark_ended(std::size_t index, std::string summary) {
  clerk_.send(command::ClaimClerk::Record{index, std::move(summary)});
}

}  // namespace spotter

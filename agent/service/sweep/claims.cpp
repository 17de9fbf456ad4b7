#include "agent/service/sweep/claims.hpp"

#include <spdlog/spdlog.h>

#include <random>

#include "agent/io/kernel.hpp"

namespace spotter {
namespace {

using sweep::NoAnswer;

// The client's own patience, a lease, ends between two tries: one on a connection that says nothing
// more takes longer.
Duration longest_request(const config::Job& job) {
  return job.claims->lease + std::chrono::seconds(20);
}

asio::awaitable<bool> done(act::S3Client::Answer<s3::Answer> asking) {
  co_return (co_await std::move(asking)).has_value();
}

}  // namespace

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
    : context_(context),
      prefix_(job.claims->at),
      limit_(longest_request(job)),
      owner_(std::move(owner)),
      callbacks_(std::move(callbacks)),
      s3_(job.claims->lease),
      timer_(context) {}

void Claims::begin(sweep::ClaimSettings settings) {
  left_ = false;
  claimant_.emplace(std::move(settings));
  deliver(sweep::Tick{});
}

void Claims::send(Work work) {
  work_.push_back(std::move(work));
  if (!std::exchange(working_, true)) asio::co_spawn(context_, this->work(), io::rethrow);
}

asio::awaitable<void> Claims::work() {
  for (; !work_.empty(); work_.pop_front()) {
    Work& next = work_.front();
    if (auto* const request = std::get_if<sweep::Request>(&next)) {
      const std::uint64_t number = request->number;
      const Done done = co_await answer(std::move(*request));
      report_trouble(done);
      deliver(sweep::Reply{number, done.answer});
    } else if (!owns_) {
      continue;
    } else if (const auto* const hint = std::get_if<sweep::Mark>(&next)) {
      co_await mark(*hint);
    } else {
      co_await record(std::move(std::get<Record>(next)));
    }
  }
  working_ = false;
}

wire::S3Location Claims::at(const std::string& name) const {
  return {prefix_.bucket, prefix_.key + name};
}

// The reason, if the claims are not this job's, or if that is not known. Its first machine makes
// the object.
asio::awaitable<std::string> Claims::own() {
  const act::Register object(s3_, at(std::string(sweep::owner_name)));
  const auto made = co_await object.write(sweep::to_json(owner_), "", limit_);
  if (!made) co_return made.error().text();
  owns_ = made->has_value();
  if (owns_) co_return "";
  const auto found = co_await object.read(limit_);
  if (!found) co_return found.error().text();
  const auto there = sweep::parse_owner(found->text);
  if (!there) co_return wire::to_url(object.where()) + ": " + there.error().message;
  owns_ = there->id == owner_.id;
  if (owns_) co_return "";
  foreign_ = true;
  const std::string ours = there->storage == owner_.storage
                               ? "in another folder there, or in one that not all machines see"
                               : "on " + owner_.storage;
  co_return "two jobs have this name: these claims are of the one on " + there->storage +
      ", and this one is " + ours +
      "; give one of them another name, or another prefix in claims.at. If the other " +
      "is no more, delete all below " + wire::to_url(prefix_);
}

Claims::Doing Claims::answer(sweep::Request request) {
  if (!owns_) {
    auto owning = own();
    Done done;
    done.trouble = co_await std::move(owning);
    if (!owns_) co_return done;
  }
  const auto* const wanted = std::get_if<sweep::ReadClaim>(&request.ask);
  const auto* const change = std::get_if<sweep::WriteClaim>(&request.ask);
  auto doing = wanted != nullptr   ? read(wanted->index)
               : change != nullptr ? write(*change)
                                   : list();
  co_return co_await std::move(doing);
}

Claims::Doing Claims::list() {
  const auto found = co_await s3_.list(prefix_, "/", limit_);
  const auto now = wire::parse_http_date(found ? found->date : "");
  if (!found || !now) {
    co_return Done{NoAnswer{}, found ? "S3 says no Date" : found.error().text()};
  }
  sweep::Listed listed;
  listed.date = *now;
  for (const auto& object : found->objects) {
    const auto name =
        sweep::parse_object_name(std::string_view(object.key).substr(prefix_.key.size()));
    if (!name) continue;
    if (name->kind == "claim") listed.claims.push_back({name->index, object.modified});
    if (name->kind == "ended") listed.ended.push_back(name->index);
    if (name->kind == "given") listed.given.push_back(name->index);
  }
  co_return Done{std::move(listed)};
}

Claims::Doing Claims::read(std::size_t index) {
  const act::Register object(s3_, at(sweep::claim_name(index)));
  const auto there = co_await object.read(limit_);
  if (!there) co_return Done{NoAnswer{}, there.error().text()};
  sweep::ReadAnswer answer{.date = there->date};
  if (there->exists()) answer.found = {sweep::parse_claim(there->text), there->etag, there->since};
  co_return Done{std::move(answer)};
}

Claims::Doing Claims::write(sweep::WriteClaim write) {
  const act::Register object(s3_, at(sweep::claim_name(write.index)));
  const auto written = co_await object.write(sweep::to_json(write.claim), write.etag, limit_);
  if (!written) co_return Done{NoAnswer{}, written.error().text()};
  if (!*written) co_return Done{sweep::NotWritten{}};
  co_return Done{sweep::Written{**written}};
}

// Only a hint: an agent that does not see it reads the claim.
asio::awaitable<bool> Claims::mark(sweep::Mark mark) {
  const std::string name = sweep::hint_name(mark.index, mark.hint);
  if (mark.there) return put(name, "");
  s3::Request request{.method = "DELETE", .bucket = prefix_.bucket, .key = prefix_.key + name};
  return done(s3_.perform(std::move(request), "", limit_));
}

asio::awaitable<void> Claims::record(Record record) {
  if (!record.summary.empty()) {
    auto storing = put(sweep::result_name(record.index), std::move(record.summary));
    if (!co_await std::move(storing)) co_return;
  }
  auto marking = mark({record.index, sweep::Hint::Ended, true});
  co_await std::move(marking);
}

asio::awaitable<bool> Claims::put(std::string name, std::string bytes) {
  s3::Request request = s3::put_request(at(name), bytes, s3::new_writer(), {});
  return done(s3_.perform(std::move(request), std::move(bytes), limit_));
}

// Reading a claim shows nothing about write permission, so it does not clear the problem.
void Claims::report_trouble(const Done& done) {
  if (done.trouble.empty() && std::holds_alternative<sweep::ReadAnswer>(done.answer)) return;
  if (done.trouble == trouble_) return;
  trouble_ = done.trouble;
  if (!trouble_.empty()) spdlog::warn("the claims in {}: {}", wire::to_url(prefix_), trouble_);
  callbacks_.complain(trouble_);
  if (!foreign_) return;
  left_ = true;
  timer_.cancel();
}

void Claims::deliver(const sweep::News& news) {
  if (left_) return;
  for (auto& order : claimant_->on(io::now(), news)) carry_out(std::move(order));
  set_timer();
}

void Claims::set_timer() {
  if (left_) return;
  // The timer's clock stops while the machine sleeps: looks again within a minute.
  const Time soon = io::now() + std::chrono::minutes(1);
  const Duration left = std::min(claimant_->wake_at(), soon) - io::now();
  timer_.expires_after(std::max(Duration(1), left));
  timer_.async_wait([this](boost::system::error_code error) {
    if (!error) deliver(sweep::Tick{});
  });
}

void Claims::carry_out(sweep::Order order) {
  if (auto* request = std::get_if<sweep::Request>(&order)) {
    const auto* pin = std::get_if<sweep::FindParent>(&request->ask);
    if (pin != nullptr) return callbacks_.find_parent(request->number, *pin);
    send(std::move(*request));
  } else if (const auto* mark = std::get_if<sweep::Mark>(&order)) {
    send(*mark);
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
  send(Record{index, std::move(summary)});
}

}  // namespace spotter

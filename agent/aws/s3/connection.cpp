#include "agent/aws/s3/connection.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace spotter::s3 {
namespace {

using Clock = std::chrono::steady_clock;

// What is read before it is known where the body belongs: the rest of it is copied.
constexpr std::size_t head_at_once = 1024;
constexpr std::size_t some_at_once = 16U << 10;
// libcurl asks the socket for no more at once.
constexpr long received_at_once = 512L << 10;
constexpr int reads_at_once = 32;  // then others have their turn

std::string text_of(const Plan& plan) {
  std::string text = plan.method;
  text.reserve(1024);
  text.append(" ").append(plan.target).append(" HTTP/1.1\r\nHost: ").append(plan.host);
  text.append("\r\nUser-Agent: ").append(curl::user_agent).append("\r\n");
  for (const auto& [name, value] : plan.headers) {
    text.append(name).append(": ").append(value).append("\r\n");
  }
  return text.append("\r\n");
}

}  // namespace

Connection::Connection(curl::Loop& loop, const curl::Share& shared, const curl::TrustStore& trust,
                       std::string base)
    : loop_(loop), shared_(shared), trust_(trust), base_(std::move(base)) {}

Connection::~Connection() { disconnect(); }

void Connection::connect() {
  link_ = std::make_unique<curl::Loop>(1);
  easy_.emplace(trust_, curl::Limits{.connect = connect_limit, .read_at_once = received_at_once});
  easy_->connect_only(base_, shared_);
  used_ = false;
  linked_.reset();
  link_->add(*easy_, *this);
  loop_.watch(link_->descriptor(), false, *this);
}

void Connection::disconnect() {
  if (link_ == nullptr) return;
  loop_.forget(socket_ >= 0 ? socket_ : link_->descriptor());
  link_->remove(*easy_);
  easy_.reset();
  link_.reset();
  socket_ = -1;
  open_ = false;
}

void Connection::begin(Plan plan, Done done) {
  request_ = text_of(plan);
  incoming_.begin(std::move(plan));
  busy_ = true;
  done_ = std::move(done);
  sent_ = 0;
  silent_ = 0;
  // What the server has sent since the last answer is none to this request: bytes that were too
  // many, or its farewell.
  std::size_t stray = 0;
  char byte = 0;
  if (is_open() && receive({&byte, 1}, stray) != CURLE_AGAIN) disconnect();
  if (is_open()) {
    send();
  } else {
    connect();
  }
}

void Connection::continue_connecting() {
  link_->turn(std::chrono::milliseconds(0));
  if (!linked_) return;
  if (*linked_ != CURLE_OK) {
    return end(*linked_, easy_->explain(*linked_));
  }
  // The handle stays in its loop: that is where libcurl looks for the connection.
  loop_.forget(link_->descriptor());
  socket_ = easy_->socket();
  open_ = true;
  send();
}

// From within its loop, which has to outlive that.
void Connection::finished(CURLcode code) { linked_ = code; }

std::optional<Connection::Instant> Connection::next() const {
  return is_connecting() ? link_->next() : std::nullopt;
}

void Connection::send() {
  while (sent_ < request_.size()) {
    std::size_t sent = 0;
    const auto code = easy_->send(std::string_view(request_).substr(sent_), sent);
    if (code == CURLE_AGAIN) return loop_.watch(socket_, true, *this);
    if (code != CURLE_OK) return broken(code);
    sent_ += sent;
  }
  begun_ = Clock::now();
  if (!used_) loop_.watch(socket_, false, *this);
}

CURLcode Connection::receive(std::span<char> into, std::size_t& got) {
  got = 0;
  const auto code = easy_->receive(into, got);
  came_ += got;
  if (code == CURLE_OK && got == 0) return CURLE_GOT_NOTHING;
  return code;
}

void Connection::ready() {
  if (is_connecting()) return continue_connecting();
  if (busy_ && sent_ < request_.size()) {
    send();
    if (!is_open() || sent_ < request_.size()) return;
    loop_.watch(socket_, false, *this);
  }
  // What TLS has decrypted already makes no file readable: all of it is taken.
  for (int i = 0; (i < reads_at_once || is_tls()) && read_some(); ++i) {
  }
}

bool Connection::read_some() {
  if (!is_open()) return false;
  std::array<char, some_at_once> some;
  auto into = busy_ ? incoming_.room() : std::span<char>();
  const bool direct = !into.empty();
  if (direct) into = into.first(std::min(into.size(), std::size_t{received_at_once}));
  if (!direct) into = std::span(some).first(incoming_.has_head() ? some_at_once : head_at_once);
  std::size_t got = 0;
  const auto code = receive(into, got);
  if (code == CURLE_AGAIN) return false;
  if (!busy_) {  // nobody asked: the server has left, or says what it must not
    disconnect();
    return false;
  }
  if (code != CURLE_OK) {
    broken(code);
    return false;
  }
  if (incoming_.is_silent()) first_ = Clock::now();
  if (direct) {
    incoming_.put(got);
  } else {
    incoming_.take({into.data(), got});
  }
  settle();
  // A short read has emptied the socket; TLS reads record by record.
  return busy_ && (got == into.size() || is_tls());
}

// The answer is over, or cannot be read.
void Connection::settle() {
  if (incoming_.state() == Incoming::State::Whole) end(CURLE_OK, {});
  if (busy_ && incoming_.state() == Incoming::State::Wrong) {
    end(CURLE_WEIRD_SERVER_REPLY, incoming_.what_is_wrong());
  }
}

// A server may close a connection that it has kept for long, just when it is used again.
void Connection::broken(CURLcode code) {
  if (used_ && incoming_.is_silent()) {
    disconnect();
    sent_ = 0;
    return connect();
  }
  if (code != CURLE_GOT_NOTHING || incoming_.is_silent()) {
    return end(code, curl::words_for(code));
  }
  incoming_.close();
  settle();
}

void Connection::end(CURLcode code, std::string message) {
  const auto now = Clock::now();
  busy_ = false;
  used_ = true;
  if (code != CURLE_OK || incoming_.is_last()) disconnect();
  const Done done = std::exchange(done_, nullptr);
  Taken taken = incoming_.end(code, std::move(message));
  if (incoming_.has_head()) {
    taken.waited = std::chrono::duration_cast<std::chrono::microseconds>(first_ - begun_);
    taken.lasted = std::chrono::duration_cast<std::chrono::microseconds>(now - first_);
  }
  done(std::move(taken));
}

void Connection::tick() {
  silent_ = came_ == came_before_ ? silent_ + 1 : 0;
  came_before_ = came_;
  if (silent_ < silence_limit.count() || !busy_ || !is_open()) return;
  end(CURLE_OPERATION_TIMEDOUT, "the server has said nothing for too long");
}

}  // namespace spotter::s3

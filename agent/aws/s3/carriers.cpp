#include "agent/aws/s3/carriers.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace spotter::s3 {
namespace {

// From the socket: what is copied on from here should still be in the processor's cache.
constexpr long document_read_at_once = 128L << 10;

}  // namespace

Exchange::Exchange(curl::Loop& loop, const curl::TrustStore& trust)
    : loop_(loop),
      easy_(trust, {.connect = connect_limit,
                    .silence = silence_limit,
                    .read_at_once = document_read_at_once,
                    .write_at_once = 1L << 20}) {
  easy_.keep_path();
  easy_.hand_to(*this);
}

Exchange::~Exchange() { loop_.remove(easy_); }

void Exchange::begin(Plan plan, Done done) {
  intake_.begin(std::move(plan));
  done_ = std::move(done);
  const Plan& begun = intake_.plan();
  easy_.set_url(begun.base + begun.target);
  easy_.set_headers(begun.headers);
  easy_.set_method(begun.method, begun.body);
  loop_.add(easy_, *this);
}

void Exchange::finished(CURLcode code) {
  loop_.remove(easy_);
  const auto first = easy_.time_of(CURLINFO_STARTTRANSFER_TIME_T);
  const Done done = std::move(done_);
  Taken taken = intake_.end(code, easy_.explain(code));
  taken.waited = first - easy_.time_of(CURLINFO_PRETRANSFER_TIME_T);
  taken.lasted = easy_.time_of(CURLINFO_TOTAL_TIME_T) - first;
  done(std::move(taken));
}

namespace {

using Clock = std::chrono::steady_clock;

// The bytes read at once before it is known where the body belongs: the body's part is copied.
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
  // Bytes that the server has sent since the last answer do not answer this request: they are
  // surplus, or its farewell.
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
  // Bytes that TLS has decrypted already do not make the socket readable: all are taken.
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

namespace {

constexpr std::chrono::seconds tick_every{1};

bool is_read(const Plan& plan) { return plan.method == "GET" || plan.method == "HEAD"; }

}  // namespace

Carriers::Carriers(bool proxy, Ended ended) : proxy_(proxy), ended_(std::move(ended)) {}

std::unique_ptr<Connection> Carriers::free_connection(const std::string& base) {
  // The one that was used last: what it needs is still in the processor's caches.
  const auto found = std::find_if(free_connections_.rbegin(), free_connections_.rend(),
                                  [&](const auto& each) { return each->base() == base; });
  if (found == free_connections_.rend()) {
    ++made_;
    return std::make_unique<Connection>(loop_, *shared_, trust_, base);
  }
  auto connection = std::move(*found);
  free_connections_.erase(std::next(found).base());
  return connection;
}

void Carriers::start(Id id, Plan plan) {
  if (!shared_) shared_.emplace();
  if (!is_read(plan) || proxy_) {
    if (free_exchanges_.empty())
      free_exchanges_.push_back(std::make_unique<Exchange>(loop_, trust_));
    auto& exchange = *(exchanges_[id] = std::move(free_exchanges_.back()));
    free_exchanges_.pop_back();
    return exchange.begin(std::move(plan), [this, id](Taken taken) {
      free_exchanges_.push_back(std::move(exchanges_.extract(id).mapped()));
      ended_(id, std::move(taken));
    });
  }
  auto& connection = *(connections_[id] = free_connection(plan.base));
  connection.begin(std::move(plan), [this, id](Taken taken) {
    free_connections_.push_back(std::move(connections_.extract(id).mapped()));
    ended_(id, std::move(taken));
  });
}

void Carriers::drop(Id id) {
  connections_.erase(id);
  exchanges_.erase(id);
}

std::optional<curl::Loop::Instant> Carriers::next() const {
  auto next = loop_.next();
  const auto sooner = [&next](std::optional<curl::Loop::Instant> at) {
    if (at && (!next || *at < *next)) next = at;
  };
  for (const auto& [id, connection] : connections_) sooner(connection->next());
  if (!connections_.empty()) sooner(ticked_ + tick_every);
  return next;
}

// By their numbers: while one ends, others may be dropped.
void Carriers::each(const std::function<void(Connection&)>& what) {
  std::vector<Id> all;
  all.reserve(connections_.size());
  for (const auto& [id, connection] : connections_) all.push_back(id);
  for (const auto id : all) {
    const auto found = connections_.find(id);
    if (found != connections_.end()) what(*found->second);
  }
}

void Carriers::turn(std::chrono::milliseconds at_most) {
  loop_.turn(at_most);
  const auto now = Clock::now();
  const bool due = std::ranges::any_of(connections_, [now](const auto& each) {
    const auto next = each.second->next();
    return next && *next <= now;
  });
  if (due) {
    each([now](Connection& connection) {
      const auto next = connection.next();
      if (next && *next <= now) connection.continue_connecting();
    });
  }
  if (now - ticked_ < tick_every) return;
  ticked_ = now;
  std::erase_if(free_connections_, [](const auto& each) { return !each->is_open(); });
  each([](Connection& connection) { connection.tick(); });
}

}  // namespace spotter::s3

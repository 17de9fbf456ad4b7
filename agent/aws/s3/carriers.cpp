#include "agent/aws/s3/carriers.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <utility>

#include "agent/curl/easy.hpp"

namespace spotter::s3 {
namespace {

// From the socket: what is copied on from here should still be in the processor's cache.
constexpr long document_read_at_once = 128L << 10;

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
  for (const auto& [name, value] : plan.headers)
    text.append(name).append(": ").append(value).append("\r\n");
  return text.append("\r\n");
}

constexpr std::chrono::seconds tick_every{1};

bool is_read(const Plan& plan) { return plan.method == "GET" || plan.method == "HEAD"; }

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
  if (*linked_ != CURLE_OK) return end(*linked_, easy_->explain(*linked_));
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
  if (busy_ && incoming_.state() == Incoming::State::Wrong)
    end(CURLE_WEIRD_SERVER_REPLY, incoming_.what_is_wrong());
}

// A server may close a connection that it has kept for long, just when it is used again.
void Connection::broken(CURLcode code) {
  if (used_ && incoming_.is_silent()) {
    disconnect();
    sent_ = 0;
    return connect();
  }
  if (code != CURLE_GOT_NOTHING || incoming_.is_silent()) return end(code, curl::words_for(code));
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

namespace {

constexpr std::size_t longest_line = 8U << 10;

// Hexadecimal, and perhaps an extension behind it.
bool parse_size(std::string_view line, std::uint64_t& size) {
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), size, 16);
  const auto rest = line.substr(static_cast<std::size_t>(end - line.data()));
  return error == std::errc() && (rest.empty() || rest[0] == ';' || rest[0] == ' ');
}

constexpr std::size_t longest_head = 64U << 10;

bool says(std::string_view header, std::string_view word) {
  const auto same = [](char a, char b) { return (a >= 'A' && a <= 'Z' ? a - 'A' + 'a' : a) == b; };
  return std::search(header.begin(), header.end(), word.begin(), word.end(), same) != header.end();
}

constexpr std::size_t longest_body = 8U << 20;
constexpr std::size_t longest_headers = 64U << 10;

bool is_success(int status) { return status / 100 == 2; }

}  // namespace

// True: line_ is one, without its end.
bool Chunks::read_line(std::string_view& bytes) {
  const auto end = bytes.find('\n');
  line_ += bytes.substr(0, end);
  bytes.remove_prefix(end == bytes.npos ? bytes.size() : end + 1);
  if (end == bytes.npos) return false;
  if (line_.ends_with('\r')) line_.pop_back();
  return true;
}

Chunks::State Chunks::feed(std::string_view& bytes,
                           const std::function<bool(std::string_view)>& take) {
  while (!bytes.empty()) {
    if (part_ == Part::Content) {
      const auto piece = bytes.substr(0, left_);
      bytes.remove_prefix(piece.size());
      left_ -= piece.size();
      if (!take(piece)) return State::Wrong;
      if (left_ == 0) part_ = Part::Border;
      continue;
    }
    if (!read_line(bytes)) return line_.size() > longest_line ? State::Wrong : State::Open;
    const std::string line = std::exchange(line_, {});
    if (part_ == Part::Border) {
      if (!line.empty()) return State::Wrong;
      part_ = Part::Size;
    } else if (part_ == Part::Trailer) {
      if (line.empty()) return State::Whole;
    } else {
      if (!parse_size(line, left_)) return State::Wrong;
      part_ = left_ == 0 ? Part::Trailer : Part::Content;
    }
  }
  return State::Open;
}

void Incoming::begin(Plan plan) {
  bodiless_ = plan.method == "HEAD";
  intake_.begin(std::move(plan));
  state_ = State::Open;
  part_ = Part::Head;
  head_.clear();
  last_ = false;
}

void Incoming::fail(std::string what) {
  state_ = State::Wrong;
  wrong_ = std::move(what);
}

void Incoming::take(std::string_view bytes) {
  if (part_ != Part::Head) return take_body(bytes);
  head_ += bytes;
  take_head();
}

// After a 1xx another one follows.
void Incoming::take_head() {
  while (state_ == State::Open && part_ == Part::Head) {
    const auto end = head_.find("\r\n\r\n");
    if (end == head_.npos) {
      if (head_.size() > longest_head) fail("its headers do not end");
      return;
    }
    const std::string head = std::exchange(head_, head_.substr(end + 4)).substr(0, end + 2);
    if (!take_lines(head)) return fail("its headers are not those of HTTP");
    if (intake_.answer().status / 100 == 1) continue;
    if (!intake_.take_header("")) return fail("it is not wanted");
    begin_body();
  }
  if (state_ == State::Whole) last_ = last_ || !head_.empty();
  if (state_ == State::Open && !head_.empty()) take_body(std::exchange(head_, {}));
}

bool Incoming::take_lines(std::string_view lines) {
  if (!lines.starts_with("HTTP/1.")) return false;
  last_ = lines.starts_with("HTTP/1.0");
  while (!lines.empty()) {
    const auto end = lines.find("\r\n");
    if (!intake_.take_header(lines.substr(0, end))) return false;
    lines.remove_prefix(end + 2);
  }
  return intake_.answer().status >= 100;
}

void Incoming::begin_body() {
  const Answer& answer = intake_.answer();
  if (says(answer.header("connection"), "close")) last_ = true;
  const auto length = answer.header("content-length");
  left_ = 0;
  if (bodiless_ || answer.status == 204 || answer.status == 304) {
    part_ = Part::Sized;  // what its length says is not sent
  } else if (says(answer.header("transfer-encoding"), "chunked")) {
    part_ = Part::Chunks;
    chunks_ = {};
  } else if (length.empty()) {
    part_ = Part::Rest;
    last_ = true;
  } else {
    part_ = Part::Sized;
    const auto bytes = wire::parse_count(length);
    if (!bytes) return fail("its length is no number");
    left_ = *bytes;
  }
  if (part_ == Part::Sized && left_ == 0) state_ = State::Whole;
}

std::span<char> Incoming::room() const {
  if (part_ != Part::Sized) return {};
  const auto room = intake_.room();
  return room.first(static_cast<std::size_t>(std::min<std::uint64_t>(room.size(), left_)));
}

void Incoming::put(std::size_t bytes) {
  intake_.put(bytes);
  left_ -= bytes;
  if (left_ == 0) state_ = State::Whole;
}

void Incoming::take_body(std::string_view bytes) {
  constexpr auto unwanted = "its body is not what was to come";
  if (part_ == Part::Chunks) {
    const auto state =
        chunks_.feed(bytes, [this](std::string_view piece) { return intake_.take_body(piece); });
    if (state == Chunks::State::Wrong) return fail(unwanted);
    if (state == Chunks::State::Whole) state_ = State::Whole;
  } else {
    const auto mine =
        part_ == Part::Sized
            ? bytes.substr(0,
                           static_cast<std::size_t>(std::min<std::uint64_t>(left_, bytes.size())))
            : bytes;
    bytes.remove_prefix(mine.size());
    if (!intake_.take_body(mine)) return fail(unwanted);
    if (part_ == Part::Sized && (left_ -= mine.size()) == 0) state_ = State::Whole;
  }
  // The server sent more than was asked for.
  if (state_ == State::Whole && !bytes.empty()) last_ = true;
}

void Incoming::close() {
  last_ = true;
  if (part_ == Part::Rest) {
    state_ = State::Whole;
  } else {
    fail("the connection was closed before its end");
  }
}

void Intake::begin(Plan plan) {
  plan_ = std::move(plan);
  taken_ = {};
}

bool Intake::take_header(std::string_view line) {
  Answer& answer = taken_.answer;
  if (const auto status = curl::parse_status(line)) {  // also after a 100
    answer = {};
    answer.status = *status;
    return true;
  }
  if (line.empty() || line == "\r\n") {
    if (!is_success(answer.status) || plan_.into.empty() || !plan_.check) return true;
    taken_.objection = plan_.check(answer);
    return taken_.objection.empty();
  }
  if (auto header = curl::parse_header(line)) {
    if (header->first == "etag") header->second = wire::quoted_etag(header->second);
    answer.headers.push_back(std::move(*header));
  }
  return answer.headers.size() < longest_headers / 64;
}

std::span<char> Intake::room() const {
  if (!is_success(taken_.answer.status)) return {};
  return plan_.into.subspan(taken_.received);
}

void Intake::put(std::size_t bytes) {
  taken_.received += bytes;
  if (plan_.moved != nullptr) *plan_.moved += bytes;
  if (plan_.arrived != nullptr) *plan_.arrived += bytes;
}

bool Intake::take_body(std::string_view bytes) {
  if (is_success(taken_.answer.status) && !plan_.into.empty()) {
    const auto where = room();
    taken_.too_long = bytes.size() > where.size();
    if (taken_.too_long) return false;
    std::memcpy(where.data(), bytes.data(), bytes.size());
    put(bytes.size());
    return true;
  }
  if (plan_.moved != nullptr) *plan_.moved += bytes.size();
  taken_.too_long = taken_.answer.body.size() + bytes.size() > longest_body;
  if (!taken_.too_long) taken_.answer.body += bytes;
  return !taken_.too_long;
}

Taken Intake::end(CURLcode code, std::string message) {
  taken_.code = code;
  taken_.message = std::move(message);
  plan_ = {};
  return std::move(taken_);
}

}  // namespace spotter::s3

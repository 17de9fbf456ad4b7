#include "agent/aws/s3/carriers.hpp"

#include <pthread.h>
#ifndef SPOTTER_CLIENT
#include <sched.h>
#endif

#include <algorithm>
#include <csignal>
#include <cstring>
#include <ctime>
#include <future>
#include <mutex>
#include <system_error>
#include <utility>

namespace spotter::s3 {
namespace {

// From the socket: what is copied on from here should still be in the processor's cache.
constexpr long read_at_once = 128L << 10;

constexpr std::size_t longest_body = 8U << 20;
constexpr std::size_t most_headers = 1024;

bool is_success(int status) { return status / 100 == 2; }

// The asker learns late of so many bytes, at most, as each ring costs both threads a call.
constexpr std::uint64_t bytes_a_ring = 512U << 10;
constexpr std::chrono::hours for_long{1};
constexpr std::size_t most_threads = 16;
// With fewer, the reader of the bytes and the training need all of them.
constexpr std::size_t worth_threads = 4;
// Connections that are kept, as many as requests go out at once.
constexpr long most_idle = 512;

#ifndef SPOTTER_CLIENT
std::size_t processors() {
  cpu_set_t allowed;
  if (::sched_getaffinity(0, sizeof allowed, &allowed) != 0) return most_threads;  // over 1024
  return static_cast<std::size_t>(CPU_COUNT(&allowed));
}

std::chrono::nanoseconds processor_time_of(pthread_t thread) {
  clockid_t clock{};
  timespec time{};
  if (::pthread_getcpuclockid(thread, &clock) == 0) ::clock_gettime(clock, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}
#else
std::size_t processors() { return 1; }
std::chrono::nanoseconds processor_time_of(pthread_t) { return {}; }
#endif

}  // namespace

std::size_t spare_threads() {
  const std::size_t all = processors();
  return all < worth_threads ? 0 : std::min(all, most_threads);
}

class Exchange final : public curl::Turned, public curl::Sink, Pinned {
 public:
  using Done = std::function<void(Taken)>;

  // `moved` grows by what comes in.
  Exchange(curl::Loop& loop, const curl::TrustStore& trust, std::atomic<std::uint64_t>& moved)
      : loop_(loop),
        easy_(trust, {.connect = connect_limit,
                      .silence = silence_limit,
                      .read_at_once = read_at_once,
                      .write_at_once = 1L << 20}),
        moved_(moved) {
    easy_.keep_path();
    easy_.hand_to(*this);
  }
  ~Exchange() override { loop_.remove(easy_); }

  void begin(Plan plan, Done done) {
    plan_ = std::move(plan);
    taken_ = {};
    done_ = std::move(done);
    again_ = false;
    easy_.set_url(plan_.base + plan_.target);
    easy_.set_headers(plan_.headers);
    easy_.set_method(plan_.method, plan_.body);
    loop_.add(easy_, *this);
  }

  void finished(CURLcode code) override {
    loop_.remove(easy_);
    // libcurl itself takes another connection for a kept one that the server has closed, but counts
    // that over all transfers of a handle, and refuses each sixth: github.com/curl/curl/pull/19066.
    if (code == CURLE_SEND_ERROR && taken_.answer.status == 0 && !std::exchange(again_, true)) {
      loop_.add(easy_, *this);
      return;
    }
    const Done done = std::move(done_);
    Taken taken = std::move(taken_);
    plan_ = {};
    taken.code = code;
    taken.message = easy_.explain(code);
    done(std::move(taken));
  }

 private:
  bool take_header(std::string_view line) override {
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
    return answer.headers.size() < most_headers;
  }

  bool take_body(std::string_view bytes) override {
    moved_ += bytes.size();
    if (is_success(taken_.answer.status) && !plan_.into.empty()) {
      const auto room = plan_.into.subspan(taken_.received);
      taken_.too_long = bytes.size() > room.size();
      if (taken_.too_long) return false;
      std::memcpy(room.data(), bytes.data(), bytes.size());
      taken_.received += bytes.size();
      if (plan_.arrived != nullptr) *plan_.arrived += bytes.size();
      return true;
    }
    taken_.too_long = taken_.answer.body.size() + bytes.size() > longest_body;
    if (!taken_.too_long) taken_.answer.body += bytes;
    return !taken_.too_long;
  }

  curl::Loop& loop_;
  curl::Easy easy_;
  std::atomic<std::uint64_t>& moved_;
  Plan plan_;
  Taken taken_;
  bool again_ = false;  // begun again, as its connection was closed already
  Done done_;
};

// Exchanges, and the connections they use, of the one thread that turns it.
class Carriers::Carrier {
 public:
  Carrier(const curl::TrustStore& trust, Ended ended) : trust_(trust), ended_(std::move(ended)) {}

  void start(Id id, Plan plan) {
    if (free_.empty()) free_.push_back(std::make_unique<Exchange>(loop_, trust_, moved_));
    auto& exchange = *(exchanges_[id] = std::move(free_.back()));
    free_.pop_back();
    exchange.begin(std::move(plan), [this, id](Taken taken) {
      free_.push_back(std::move(exchanges_.extract(id).mapped()));
      ended_(id, std::move(taken));
    });
  }
  void drop(Id id) { exchanges_.erase(id); }
  curl::Loop& loop() { return loop_; }
  // Bytes that have come so far. From any thread.
  std::uint64_t moved() const { return moved_; }

 private:
  const curl::TrustStore& trust_;
  Ended ended_;
  std::atomic<std::uint64_t> moved_ = 0;
  curl::Loop loop_{most_idle};
  std::unordered_map<Id, std::unique_ptr<Exchange>> exchanges_;
  std::vector<std::unique_ptr<Exchange>> free_;
};

// A carrier that a thread of its own turns. Public functions are for the one thread that asks.
class Carriers::Thread : Pinned {
 public:
  // Rings `asker` when bytes or results are here. Null: the process has no thread or file left.
  static std::unique_ptr<Thread> begin(const curl::TrustStore& trust, curl::Bell& asker) {
    std::unique_ptr<Thread> thread(new Thread(trust, asker));
    if (!thread->bell_.is_open()) return nullptr;
    // The process's signals are for the threads that know of them.
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    // A fault is its own thread's, and a handler may mean it: a mapped file became shorter.
    for (const int own : {SIGBUS, SIGSEGV, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT})
      sigdelset(&all, own);
    ::pthread_sigmask(SIG_SETMASK, &all, &before);
    try {
      thread->thread_ = std::thread([it = thread.get()] { it->work(); });
    } catch (const std::system_error&) {
      thread.reset();
    }
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return thread;
  }
  ~Thread() {
    if (!thread_.joinable()) return;
    end();
    thread_.join();
  }

  void start(Id id, Plan plan) {
    bytes_ += plan.bytes();
    give([this, id, plan = std::move(plan)]() mutable { carrier_.start(id, std::move(plan)); });
  }
  void end() {
    give([this] { ending_ = true; });
  }
  // Ready when nothing touches what their plans name.
  std::future<void> drop(std::vector<Id> ids) {
    const auto gone = std::make_shared<std::promise<void>>();
    give([this, ids = std::move(ids), gone] {
      for (const Id id : ids) carrier_.drop(id);
      gone->set_value();
    });
    return gone->get_future();
  }
  std::vector<std::pair<Id, Taken>> take_results() {
    const std::scoped_lock lock(mutex_);
    return std::exchange(results_, {});
  }
  void ended(std::size_t bytes) { bytes_ -= bytes; }
  std::size_t bytes() const { return bytes_; }  // of what is under way
  std::uint64_t moved() const { return carrier_.moved(); }
  std::chrono::nanoseconds processor_time() { return processor_time_of(thread_.native_handle()); }

 private:
  using Order = std::function<void()>;

  Thread(const curl::TrustStore& trust, curl::Bell& asker)
      : asker_(asker),
        carrier_(trust, [this](Id id, Taken taken) { add_result(id, std::move(taken)); }),
        bell_(carrier_.loop()) {}

  void give(Order order) {
    {
      const std::scoped_lock lock(mutex_);
      orders_.push_back(std::move(order));
    }
    bell_.ring();
  }
  void add_result(Id id, Taken taken) {
    const std::scoped_lock lock(mutex_);
    results_.emplace_back(id, std::move(taken));
    has_ended_ = true;
  }
  bool take_orders() {  // false: it is to end
    std::vector<Order> orders;
    {
      const std::scoped_lock lock(mutex_);
      orders.swap(orders_);
    }
    for (const Order& order : orders) order();
    return !ending_;
  }
  void work() {
    std::uint64_t said = 0;  // of `moved`: the asker knows of these bytes
    while (take_orders()) {
      const auto before = carrier_.moved();
      carrier_.loop().turn(before == said ? for_long : std::chrono::milliseconds(0));
      const auto moved = carrier_.moved();
      const bool rests = moved == before;
      if (!has_ended_ && moved - said < bytes_a_ring && (!rests || moved == said)) continue;
      has_ended_ = false;
      said = moved;
      asker_.ring();
    }
  }

  curl::Bell& asker_;
  std::mutex mutex_;  // of the next two
  std::vector<Order> orders_;
  std::vector<std::pair<Id, Taken>> results_;
  bool ending_ = false;     // of the thread, as the next ones
  bool has_ended_ = false;  // something, since the asker's bell was rung
  Carrier carrier_;
  curl::Bell bell_;
  std::size_t bytes_ = 0;
  std::thread thread_;
};

Carriers::Carriers(Threads limits, Ended ended)
    : limits_(limits),
      ended_(std::move(ended)),
      own_(std::make_unique<Carrier>(
          trust_, [this](Id id, Taken taken) { this->ended(id, std::move(taken)); })) {}

Carriers::~Carriers() {
  for (const auto& other : others_) other->end();
}

int Carriers::descriptor() const { return own_->loop().descriptor(); }

std::optional<curl::Loop::Instant> Carriers::next() const { return own_->loop().next(); }

curl::Loop& Carriers::loop() { return own_->loop(); }

void Carriers::start(Id id, Plan plan) {
  const std::size_t bytes = plan.bytes();
  Thread* const other = other_for(bytes);
  under_way_[id] = {other, bytes};
  if (other == nullptr) return own_->start(id, std::move(plan));
  other->start(id, std::move(plan));
}

void Carriers::drop(std::span<const Id> ids) {
  std::unordered_map<Thread*, std::vector<Id>> of_others;
  for (const Id id : ids) {
    const auto one = take(id);
    if (one && one->other != nullptr)
      of_others[one->other].push_back(id);
    else if (one)
      own_->drop(id);
  }
  std::vector<std::future<void>> gone;
  for (auto& [other, its] : of_others) gone.push_back(other->drop(std::move(its)));
  for (const auto& each : gone) each.wait();
}

void Carriers::ended(Id id, Taken taken) {
  if (take(id)) ended_(id, std::move(taken));  // else dropped, when another thread had ended it
}

std::optional<Carriers::UnderWay> Carriers::take(Id id) {
  const auto node = under_way_.extract(id);
  if (node.empty()) return std::nullopt;
  const UnderWay one = node.mapped();
  if (one.other != nullptr) one.other->ended(one.bytes);
  return one;
}

void Carriers::turn(std::chrono::milliseconds at_most) {
  loop().turn(at_most);
  for (const auto& other : others_)
    for (auto& [id, taken] : other->take_results()) ended(id, std::move(taken));
}

std::uint64_t Carriers::moved() const {
  std::uint64_t moved = own_->moved();
  for (const auto& other : others_) moved += other->moved();
  return moved;
}

Carriers::Thread* Carriers::other_for(std::size_t bytes) {
  if (bytes == 0) return nullptr;
  if (others_.size() < limits_.most && are_busy()) {
    if (!bell_ || !bell_->is_open()) bell_.emplace(loop());
    auto other = bell_->is_open() ? Thread::begin(trust_, *bell_) : nullptr;
    if (other && others_.empty()) seen_ = {};  // they carry now
    if (other) others_.push_back(std::move(other));
  }
  const auto least =
      std::ranges::min_element(others_, {}, [](const auto& other) { return other->bytes(); });
  return least == others_.end() ? nullptr : least->get();
}

// Since the last look. The bytes are spread such that all of them are, or none.
bool Carriers::are_busy() {
  const auto now = std::chrono::steady_clock::now();
  const std::chrono::duration<double> passed = now - looked_at_;
  if (passed < limits_.period) return false;
  looked_at_ = now;
  auto time = others_.empty() ? processor_time_of(::pthread_self()) : std::chrono::nanoseconds(0);
  for (const auto& other : others_) time += other->processor_time();
  const auto enough = passed * limits_.busy * std::max<std::size_t>(1, others_.size());
  const bool busy = time - std::exchange(seen_, time) >= enough;
  // A client may be used by one thread after another.
  const auto before = std::exchange(looked_in_, std::this_thread::get_id());
  return busy && (before == looked_in_ || !others_.empty());
}

}  // namespace spotter::s3

// One HTTP exchange on a reused libcurl handle: all but reads, and whatever goes through a proxy.
// Private to agent/aws/s3.
#pragma once

#include <curl/curl.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "agent/aws/s3/values.hpp"
#include "agent/curl/loop.hpp"

namespace spotter::s3 {

// A body in chunks, as a server sends it that does not know its length yet (RFC 9112, 7.1).
// Private to agent/aws/s3.

// A request, and what has come of its answer. Private to agent/aws/s3.

inline constexpr std::chrono::milliseconds connect_limit{5'000};
// A server that says nothing for so long will not: another connection may reach another one.
inline constexpr std::chrono::seconds silence_limit{20};

struct Plan {
  std::string method;
  std::string base;    // http://127.0.0.1:4566
  std::string target;  // /bucket/key?query, escaped
  std::string host;    // as the Host header has it
  Headers headers;
  std::string_view body;
  // A successful answer's body goes here, if this is not empty.
  std::span<char> into;
  // Asked when the headers are here and the body is to go to `into`: an empty text, or what is
  // wrong with them; then not a byte is written.
  std::function<std::string(const Answer&)> check;
  std::size_t* arrived = nullptr;  // grows by what is put into `into`; may be null
  std::uint64_t* moved = nullptr;  // grows by what comes in; may be null
};

struct Taken {
  CURLcode code = CURLE_OK;
  std::string message;  // of what went wrong
  Answer answer;
  std::size_t received = 0;  // bytes that are in `into`
  std::string objection;     // of `check`
  bool too_long = false;
  // From the request to the answer's first byte, and from there on.
  std::chrono::microseconds waited{0};
  std::chrono::microseconds lasted{0};
};

class Intake {
 public:
  void begin(Plan plan);
  const Plan& plan() const { return plan_; }
  const Answer& answer() const { return taken_.answer; }

  // False: no more is wanted.
  bool take_header(std::string_view line);
  bool take_body(std::string_view bytes);

  // The place for the body's next bytes, which saves a copy; empty: take_body() keeps them. put()
  // says how many were written there.
  std::span<char> room() const;
  void put(std::size_t bytes);

  Taken end(CURLcode code, std::string message);

 private:
  Plan plan_;
  Taken taken_;
};

class Chunks {
 public:
  enum class State : std::uint8_t { Open, Whole, Wrong };
  // `take` gets the content, piece by piece; false: no more is wanted, and it is Wrong. What comes
  // behind the end is left in `bytes`.
  State feed(std::string_view& bytes, const std::function<bool(std::string_view)>& take);

 private:
  bool read_line(std::string_view& bytes);

  enum class Part : std::uint8_t { Size, Content, Border, Trailer } part_ = Part::Size;
  std::uint64_t left_ = 0;  // of a chunk
  std::string line_;
};

// The bytes of one HTTP/1.1 answer, as they come from a connection. No I/O. Private to
// agent/aws/s3. Source: RFC 9112.
class Incoming {
 public:
  enum class State : std::uint8_t { Open, Whole, Wrong };

  void begin(Plan plan);
  State state() const { return state_; }
  const std::string& what_is_wrong() const { return wrong_; }
  bool is_silent() const { return part_ == Part::Head && head_.empty(); }
  bool has_head() const { return part_ != Part::Head; }
  bool is_last() const { return last_; }  // of its connection

  // REQUIRES of all three: state() is Open.
  void take(std::string_view bytes);
  void close();  // the server has closed the connection
  // The place for the next bytes, for a caller who can receive them there; empty: take() them.
  std::span<char> room() const;
  void put(std::size_t bytes);  // so many are there

  Taken end(CURLcode code, std::string message) { return intake_.end(code, std::move(message)); }

 private:
  void take_head();
  bool take_lines(std::string_view lines);
  void begin_body();
  void take_body(std::string_view bytes);
  void fail(std::string what);

  enum class Part : std::uint8_t { Head, Sized, Chunks, Rest };
  Intake intake_;
  bool bodiless_ = false;
  State state_ = State::Whole;
  std::string wrong_;
  Part part_ = Part::Head;
  std::string head_;
  bool last_ = false;
  std::uint64_t left_ = 0;  // of the body, when its length was said
  Chunks chunks_;
};

class Exchange final : public curl::Turned, public curl::Sink {
 public:
  using Done = std::function<void(Taken)>;

  Exchange(curl::Loop& loop, const curl::TrustStore& trust);
  ~Exchange() override;
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  void begin(Plan plan, Done done);
  void finished(CURLcode code) override;

 private:
  bool take_header(std::string_view line) override { return intake_.take_header(line); }
  bool take_body(std::string_view bytes) override { return intake_.take_body(bytes); }

  curl::Loop& loop_;
  curl::Easy easy_;
  Intake intake_;
  Done done_;
};

// One HTTP/1.1 connection for reads, made by libcurl (names, TLS), spoken over here: so a body's
// bytes go from the socket to where they belong, and not by way of a buffer of libcurl's.
// Source: RFC 9112. Private to agent/aws/s3.
class Connection final : public curl::Turned {
 public:
  using Done = std::function<void(Taken)>;
  using Instant = curl::Loop::Instant;

  // To scheme://host:port. `shared`: names that were looked up, and sessions of TLS.
  // Loop, share and trust have to outlive it.
  Connection(curl::Loop& loop, const curl::Share& shared, const curl::TrustStore& trust,
             std::string base);
  ~Connection() override;
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  const std::string& base() const { return base_; }
  bool is_open() const { return link_ != nullptr && open_; }  // and may take another request
  bool is_connecting() const { return link_ != nullptr && !open_; }

  // REQUIRES: the one before has ended. A connection that the server has closed since then is
  // opened again.
  void begin(Plan plan, Done done);
  void continue_connecting();           // while it is connecting: what libcurl has to do
  std::optional<Instant> next() const;  // and when that is; not at once in begin()
  // Called once a second: ends what has been silent for too long.
  void tick();

  void finished(CURLcode code) override;
  void ready() override;

 private:
  bool is_tls() const { return base_.starts_with("https:"); }

  void connect();
  void disconnect();
  void send();
  CURLcode receive(std::span<char> into, std::size_t& got);
  bool read_some();  // false: nothing more now
  void settle();
  void broken(CURLcode code);
  void end(CURLcode code, std::string message);

  curl::Loop& loop_;
  const curl::Share& shared_;
  const curl::TrustStore& trust_;
  std::string base_;
  // Of its own: in a cache that others share libcurl would close this one for its unread bytes.
  std::unique_ptr<curl::Loop> link_;
  std::optional<curl::Easy> easy_;
  std::optional<CURLcode> linked_;  // what became of connecting
  int socket_ = -1;
  bool open_ = false;
  bool used_ = false;  // it has carried an answer
  bool busy_ = false;
  Incoming incoming_;
  Done done_;
  std::string request_;
  std::size_t sent_ = 0;
  std::uint64_t came_ = 0;  // bytes, ever
  std::uint64_t came_before_ = 0;
  int silent_ = 0;  // seconds
  Instant begun_;
  Instant first_;  // byte of the answer
};

// Carries requests: over connections of our own for reads, by libcurl's HTTP for the rest. Free
// connections are used again. Private to agent/aws/s3.

// libcurl's own connections that are kept, as many as requests go out at once.
inline constexpr long most_idle = 512;

class Carriers {
 public:
  using Id = std::uint64_t;
  using Ended = std::function<void(Id, Taken)>;

  // `proxy`: one is to be used, which libcurl knows how to speak to.
  Carriers(bool proxy, Ended ended);

  // Ended is called from within turn().
  void start(Id id, Plan plan);
  void drop(Id id);  // its connection is closed. Nothing happens when there is none
  std::size_t running() const { return exchanges_.size() + connections_.size(); }
  std::size_t made() const { return made_; }  // connections, ever

  void turn(std::chrono::milliseconds at_most);
  int descriptor() const { return loop_.descriptor(); }
  std::optional<curl::Loop::Instant> next() const;
  curl::Loop& loop() { return loop_; }  // for what else is to be turned

 private:
  std::unique_ptr<Connection> free_connection(const std::string& base);
  void each(const std::function<void(Connection&)>& what);

  bool proxy_;
  Ended ended_;
  std::size_t made_ = 0;
  std::optional<curl::Share> shared_;  // from the first request on: what it loads takes time
  curl::TrustStore trust_ = curl::TrustStore::of_this_machine();
  curl::Loop loop_{most_idle};
  std::unordered_map<Id, std::unique_ptr<Exchange>> exchanges_;
  std::unordered_map<Id, std::unique_ptr<Connection>> connections_;
  std::vector<std::unique_ptr<Exchange>> free_exchanges_;
  std::vector<std::unique_ptr<Connection>> free_connections_;
  curl::Loop::Instant ticked_{};
};

}  // namespace spotter::s3

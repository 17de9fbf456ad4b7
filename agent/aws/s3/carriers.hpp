// One HTTP exchange on a reused libcurl handle: all but reads, and whatever goes through a proxy.
// Private to agent/aws/s3.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "agent/aws/s3/incoming.hpp"
#include "agent/aws/s3/intake.hpp"
#include "agent/curl/loop.hpp"

namespace spotter::s3 {

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

// What carries requests: connections of our own for reads, libcurl's HTTP for the rest. Those that
// are free are used again. Private to agent/aws/s3.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

namespace spotter::s3 {

// Of libcurl's own connections, as many requests go out at once.
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

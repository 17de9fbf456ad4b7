// HTTP/1.1 on one connection: reads requests, has them answered, sends the answers.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
// clang-format off: boost/asio/awaitable.hpp needs <utility> first
#include <boost/asio/awaitable.hpp>
// clang-format on
#include <boost/asio/any_io_executor.hpp>

#include "tests/emulator/http.hpp"
#include "tests/emulator/wire.hpp"

namespace spotter::emulator {

// Shared by the connections of one listener; lives as long as the last of them.
struct Shared {
  HttpHandler whole;
  HttpStreams streams;
  std::function<bool(const HttpRequest&)> owners_only;
  boost::asio::any_io_executor home;  // where `whole` is called
  TlsContext tls;
  std::atomic<bool> open{true};  // false: the listener is gone
  std::atomic<int> busy{0};      // requests that are not answered yet
  std::mutex mutex = {};         // of the next
  // Weak: a socket must go before the context that it belongs to, and each may have another.
  std::set<std::weak_ptr<Wire>, std::owner_less<>> connections = {};
};

// Until one side has enough. Limits: headers 32 KiB, whole bodies 1 MiB (EC2's own user data is
// 16 KiB), streamed ones any; 60 s of silence.
boost::asio::awaitable<void> exchange(std::shared_ptr<Shared> shared, std::shared_ptr<Wire> wire);

}  // namespace spotter::emulator

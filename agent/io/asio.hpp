// The one door to Boost.Asio, so that its 100,000 lines are parsed once, as a precompiled header.
//
// g++ 12: a braced aggregate or a capturing lambda as a temporary inside a co_await expression is
// destroyed twice. Name it first:   auto answer = client.send(std::move(request));
//                                   auto result = co_await std::move(answer);
// `if (!co_await drain(at_most))` crashed without either: the awaitable has a name everywhere.
//
// A guard instead of #pragma once: spotter_precompiled() in CMakeLists.txt says why.
#ifndef SPOTTER_AGENT_IO_ASIO_HPP
#define SPOTTER_AGENT_IO_ASIO_HPP

#include <chrono>
#include <exception>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/local/datagram_protocol.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace spotter {
namespace asio = boost::asio;
}  // namespace spotter

namespace spotter::io {

// A handler for co_spawn: an exception of the coroutine ends the io_context's run, and is not lost.
inline constexpr auto rethrow = [](std::exception_ptr error) {
  if (error) std::rethrow_exception(error);
};

// Waits for so long. A cancellation is thrown, as from each wait.
inline asio::awaitable<void> wait_for(std::chrono::steady_clock::duration time) {
  asio::steady_timer timer(co_await asio::this_coro::executor, time);
  co_await timer.async_wait(asio::use_awaitable);
}

}  // namespace spotter::io

#endif  // SPOTTER_AGENT_IO_ASIO_HPP

// Headers of libraries alone, compiled once because they take long.
#ifndef SPOTTER_TESTS_EMULATOR_PRECOMPILED_HPP
#define SPOTTER_TESTS_EMULATOR_PRECOMPILED_HPP

#include <spdlog/spdlog.h>

#include <utility>
// clang-format off: boost/asio/awaitable.hpp needs <utility> first
#include <boost/asio.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/beast/http.hpp>
// clang-format on
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#endif  // SPOTTER_TESTS_EMULATOR_PRECOMPILED_HPP

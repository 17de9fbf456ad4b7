#include "agent/io/log.hpp"

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/ansicolor_sink.h>
#include <spdlog/spdlog.h>

#include <cstdlib>
#include <memory>

namespace spotter::io {
namespace {

// sd-daemon(3): a line that begins with <N> has syslog's priority N.
class Priority : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm&,
              spdlog::memory_buf_t& out) override {
    const char* prefix = "<6>";
    if (message.level >= spdlog::level::critical)
      prefix = "<2>";
    else if (message.level == spdlog::level::err)
      prefix = "<3>";
    else if (message.level == spdlog::level::warn)
      prefix = "<4>";
    else if (message.level <= spdlog::level::debug)
      prefix = "<7>";
    out.append(prefix, prefix + 3);
  }
  std::unique_ptr<custom_flag_formatter> clone() const override {
    return std::make_unique<Priority>();
  }
};

}  // namespace

void set_up_log() {
  auto sink = std::make_shared<spdlog::sinks::ansicolor_stderr_sink_st>();
  auto logger = std::make_shared<spdlog::logger>("spotter", sink);
  if (std::getenv("JOURNAL_STREAM")) {
    auto formatter = std::make_unique<spdlog::pattern_formatter>();
    formatter->add_flag<Priority>('*').set_pattern("%*%v");
    logger->set_formatter(std::move(formatter));
  } else {
    logger->set_pattern("%Y-%m-%dT%H:%M:%S.%e %^%-7l%$ %v");
  }
  spdlog::set_default_logger(logger);
}

}  // namespace spotter::io

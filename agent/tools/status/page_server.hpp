// The live page (agent/report/page) on 127.0.0.1, for a browser of this machine.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "agent/base/result.hpp"

namespace spotter::command {

struct PageServer {
  std::uint16_t port = 0;  // 0: one that is free
  // What the page shows (agent/report/model.hpp), never null; asked often, and must not wait.
  std::function<std::shared_ptr<const nlohmann::json>()> latest;
  std::function<void(const std::string& url)> ready;
};

// Until SIGINT or SIGTERM. Whoever asks under another name than this machine's own, or from a page
// of another origin, is refused. Fails where the port is taken.
Result<void> serve_page(const PageServer& server);

}  // namespace spotter::command

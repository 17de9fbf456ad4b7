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
  std::uint16_t port = 0;  // 0: any free one
  // The model to show (agent/report/model.hpp), never null; called often, and must not block.
  std::function<std::shared_ptr<const nlohmann::json>()> latest;
  std::function<void(const std::string& url)> ready;
};

// Serves until SIGINT or SIGTERM. Refuses requests under another host name than this machine's own,
// and from pages of another origin. Fails if the port is in use.
Result<void> serve_page(const PageServer& server);

}  // namespace spotter::command

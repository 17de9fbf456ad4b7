#include "tests/emulator/record.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "agent/io/descriptor.hpp"
#include "tests/emulator/precompiled.hpp"

namespace spotter::emulator {
namespace {

// ".../20260101/us-west-2/ec2/aws4_request, SignedHeaders=..."
std::string signed_service(const HttpRequest& request) {
  const std::string_view given = request.header("authorization");
  const auto end = given.find("/aws4_request");
  if (end == given.npos || end == 0) return {};
  const auto before = given.rfind('/', end - 1);
  if (before == given.npos) return {};
  return std::string(given.substr(before + 1, end - before - 1));
}

std::string line_of(const HttpRequest& request, const HttpResponse& response) {
  const nlohmann::json line{{"service", signed_service(request)},
                            {"method", request.method},
                            {"target", request.target},
                            {"action", request.header("x-amz-target")},
                            {"body", request.body},
                            {"status", response.drop ? 0 : response.status},
                            {"answer", response.body}};
  return line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace

HttpHandler recorded(const std::filesystem::path& file, HttpHandler handler) {
  if (file.empty()) return handler;
  constexpr mode_t mode = 0644;
  const auto to = std::make_shared<io::Descriptor>(
      ::open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, mode));
  if (!*to) spdlog::error("cannot record to {}", file.string());
  return [to, handler = std::move(handler)](const HttpRequest& request) {
    HttpResponse response = handler(request);
    if (!request.path().starts_with("/_spotter/")) {
      const std::string line = line_of(request, response);
      if (::write(to->get(), line.data(), line.size()) < 0)  // O_APPEND: each line is whole
        spdlog::error("a request is not recorded");
    }
    return response;
  };
}

}  // namespace spotter::emulator

#include "agent/tools/gang/gang_notice.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <system_error>

#include "agent/io/files.hpp"

namespace spotter::command {
namespace {

constexpr std::size_t most_of_agents = 65'536;

std::error_code write_notice(const std::string& path, const StopBy& stop) {
  nlohmann::json notice = {{"action", "terminate"}};
  if (stop.by) notice["stop_by_boottime_ms"] = stop.by->time_since_epoch().count();
  const auto done = io::replace_file(path, notice.dump() + "\n");
  return done ? std::error_code() : done.error();
}

std::error_code remove_notice(const std::string& path) {
  if (::unlink(path.c_str()) == 0 || errno == ENOENT) return {};
  return {errno, std::generic_category()};
}

}  // namespace

std::optional<StopBy> read_notice(const std::string& file) {
  if (file.empty()) return std::nullopt;
  const auto text = io::read_file(file, most_of_agents);
  if (!text) return std::nullopt;
  const auto json = nlohmann::json::parse(*text, nullptr, false);
  if (!json.is_object()) return std::nullopt;
  const auto by = json.find("stop_by_boottime_ms");
  if (by == json.end() || !by->is_number_integer()) return StopBy{};
  return StopBy{Time(Duration(by->get<std::int64_t>()))};
}

std::optional<StopBy> earlier(const std::optional<StopBy>& one,
                              const std::optional<StopBy>& other) {
  if (!one || !other) return one ? one : other;
  if (!one->by || !other->by) return StopBy{};
  return StopBy{std::min(*one->by, *other->by)};
}

GangNotice::GangNotice() {
  if (!folder_.path().empty()) path_ = folder_.path() + "/notice";
}

void GangNotice::say(const std::optional<StopBy>& stop) {
  if (stop == said_) return;
  const std::error_code error = stop ? write_notice(path_, *stop) : remove_notice(path_);
  if (!error) said_ = stop;
  if (error && !failed_)
    std::fprintf(stderr, "spotter gang: cannot %s %s: %s\n", stop ? "write" : "remove",
                 path_.c_str(), error.message().c_str());
  failed_ = static_cast<bool>(error);
}

}  // namespace spotter::command

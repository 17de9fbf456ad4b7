#include "agent/tools/gang/gang_notice.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "agent/io/files.hpp"

namespace spotter::command {
namespace {

constexpr std::size_t most_of_agents = 65'536;

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
  const char* set = std::getenv("TMPDIR");
  folder_ = std::string(set != nullptr && *set != 0 ? set : "/tmp") + "/spotter-gang-XXXXXX";
  if (::mkdtemp(folder_.data()) != nullptr) path_ = folder_ + "/notice";
}

GangNotice::~GangNotice() {
  if (path_.empty()) return;
  ::unlink(path_.c_str());
  ::rmdir(folder_.c_str());
}

void GangNotice::say(const std::optional<StopBy>& stop) {
  if (stop == said_) return;
  said_ = stop;
  if (!stop) {
    ::unlink(path_.c_str());
    return;
  }
  nlohmann::json notice = {{"action", "terminate"}};
  if (stop->by) notice["stop_by_boottime_ms"] = stop->by->time_since_epoch().count();
  if (const auto written = io::replace_file(path_, notice.dump() + "\n"); !written)
    std::fprintf(stderr, "spotter gang: cannot write %s: %s\n", path_.c_str(),
                 written.error().message().c_str());
}

}  // namespace spotter::command

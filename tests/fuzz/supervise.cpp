// Messages between agent and supervisor: the spec, and the files in the run directory.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "agent/supervise/launch.hpp"
#include "agent/supervise/run_directory.hpp"
#include "tests/fuzz/fuzz.hpp"

namespace spotter::fuzz {
namespace {

using namespace supervise;
using Json = nlohmann::json;

void spec(std::string_view bytes) {
  const auto read = parse_spec(bytes);
  if (!read) return must(!read.error().message.empty(), "a refusal has a reason");
  must(!read->command.empty() && !read->user.empty() && read->log_file.starts_with('/'),
       "what the supervisor cannot do without is there");
  const Json document = Json::parse(bytes, nullptr, false);
  must(document.value("stop_signal", Json(SIGTERM)) == read->stop_signal,
       "the signal is the one that is written");
  for (const auto& [name, value] : read->environment) {
    must(!name.empty() && name.find_first_of(std::string_view("=\0", 2)) == name.npos &&
             value.find('\0') == value.npos,
         "each variable can be given to a process");
  }
  const auto again = parse_spec(to_json(*read));
  must(again && to_json(*again) == to_json(*read), "a spec printed reads the same");
}

void ended(std::string_view bytes) {
  const auto read = parse_ended(bytes);
  if (!read) return must(!read.error().message.empty(), "a refusal has a reason");
  must(read->exit_code.has_value() != read->signal.has_value(), "it ended in one way");
  const Json document = Json::parse(bytes, nullptr, false);
  must(document[read->signal ? "signal" : "exit_code"] ==
           (read->signal ? *read->signal : *read->exit_code),
       "and in the way that is written");
  must(std::ranges::all_of(read->left_over, [](const LeftOver& each) { return each.pid > 0; }),
       "pids are positive");
}

void running(std::string_view bytes) {
  const auto read = parse_record(bytes);
  if (!read) return must(!read.error().message.empty(), "a refusal has a reason");
  // A pid of 0 or below would make kill(2) and its like mean somebody else.
  must(read->supervisor_pid > 0 && read->trainer_pid > 0, "pids are positive");
}

}  // namespace

void examine(std::string_view bytes) {
  spec(bytes);
  ended(bytes);
  running(bytes);
}

}  // namespace spotter::fuzz

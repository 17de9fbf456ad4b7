#include "tests/emulator/batch_service.hpp"

#include <spdlog/spdlog.h>

#include "tests/emulator/form.hpp"

namespace spotter::emulator {
namespace fs = std::filesystem;
namespace batch = world::batch;

bool BatchService::owns(const HttpRequest& request) { return request.path().starts_with("/v1/"); }

world::Reply BatchService::answer(const HttpRequest& request, const std::string& caller, Time now) {
  batch::Request asked{.method = request.method,
                       .path = percent_decode(request.path(), Plus::Literal),
                       .body = request.body,
                       .caller = caller};
  for (auto& [name, value] : parse_form(request.query(), Plus::IsSpace))
    if (name == "tagKeys") asked.names.push_back(std::move(value));
  return batch_.answer(asked, now);
}

world::Reply BatchService::refuse(const Refusal& why) {
  const Refusal said = in_json(why);
  return batch::Batch::refuse({said.code, said.message, said.status});
}

bool BatchService::settle(Time now) {
  const auto orders = batch_.advance(now);
  for (const auto& order : orders) std::visit([this](const auto& it) { on(it); }, order);
  return !orders.empty();
}

void BatchService::on(const batch::RunJob& order) {
  const fs::path folder = machines_.folder(order.host) / "jobs" / order.task;
  // Short: the path of a socket in it has at most 107 bytes.
  const fs::path run = machines_.folder(order.host) / "run" / order.task.substr(0, 8);
  const fs::path log = directory_ / "batch" / (order.log_stream + ".log");
  std::map<std::string, std::string> environment;
  for (const auto& assignment : machines_.environment(order.host)) {
    const auto equals = assignment.find('=');
    environment[assignment.substr(0, equals)] = assignment.substr(equals + 1);
  }
  // Gives the container a /run and file systems of its own, which every real one has.
  environment["SPOTTER_RUN"] = run.string();
  environment["SPOTTER_MOUNT"] = (folder / "mnt").string();
  for (const auto& [name, value] : order.environment) environment[name] = value;
  Words words = {"run", order.task, folder.string(), log.string(),
                 std::to_string(order.command.size())};
  words.insert(words.end(), order.command.begin(), order.command.end());
  for (const auto& [name, value] : environment) words.push_back(name + "=" + value);
  runs_[order.task] = order.run;
  machines_.send(order.host, words);
  spdlog::info("batch: {} attempt {} on {}", order.run.job, order.run.attempt, order.host.view());
}

void BatchService::tell(const char* what, const batch::Run& run, const InstanceId& host) {
  for (const auto& [task, mine] : runs_)
    if (mine == run) machines_.send(host, {what, task});
}

void BatchService::hear(const Words& words, Time now) {
  const auto found = runs_.find(words[1]);
  if (found == runs_.end()) return;
  const batch::Run run = found->second;
  runs_.erase(found);
  spdlog::info("batch: {} attempt {} {} {}", run.job, run.attempt, words[0], words[2]);
  batch::Ending ending;
  if (words[0] == "ended") ending.exit_code = std::atoi(words[2].c_str());
  if (words[0] == "refused") ending.reason = words[2];
  batch_.ended(run, ending, now);
}

}  // namespace spotter::emulator

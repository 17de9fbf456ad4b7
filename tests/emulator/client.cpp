#include "tests/emulator/client.hpp"

#include <curl/curl.h>

#include <chrono>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include "tests/emulator/directory.hpp"
#include "tests/emulator/process_tree.hpp"

namespace spotter::emulator {
namespace {

using nlohmann::json;

std::size_t append(char* data, std::size_t size, std::size_t count, void* to) {
  static_cast<std::string*>(to)->append(data, size * count);
  return size * count;
}

std::string text(const json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

// One line an item: its id, its state, then what else there is in one level.
std::string describe_item(const json& item) {
  std::string line = "  " + text(item.value("id", json("?")));
  if (item.contains("state")) line += "  " + text(item["state"]);
  for (const auto& [name, value] : item.items())
    if (name != "id" && name != "state" && !value.is_null() && value != "" && !value.empty())
      line += "  " + name + "=" + text(value);
  return line + "\n";
}

}  // namespace

Result<Client> Client::find(const std::string& api) {
  Client client;
  client.api_ = api;
  const char* const variable = std::getenv("SPOTTER_EMULATOR");
  if (client.api_.empty() && variable != nullptr) client.api_ = variable;
  auto announced = read_announcement(nearest_directory());
  // `serve &` in the line above may not have come to announce itself, or to remove what one that
  // was killed had announced.
  constexpr int looks = 40;
  for (int look = 0; client.api_.empty() && look < looks; ++look) {
    if (announced && is_alive(announced->pid)) break;
    std::this_thread::sleep_for(std::chrono::milliseconds{50});
    announced = read_announcement(nearest_directory());
  }
  if (client.api_.empty() && announced) client.api_ = announced->api;
  if (client.api_.empty())
    return failure(
        "which emulator? start one (`spotter-emulator serve`), give --api URL, set "
        "SPOTTER_EMULATOR, or go to its folder (where emulator.json is)");
  if (announced && announced->api == client.api_) client.certificate_ = announced->certificate;
  return client;
}

Result<json> Client::call(const std::string& what, const std::optional<json>& body) const {
  const std::unique_ptr<CURL, void (*)(CURL*)> curl(curl_easy_init(), curl_easy_cleanup);
  const std::string url = api_ + "/_spotter/" + what;
  const std::string sent = body ? body->dump() : "";
  std::string answer;
  curl_easy_setopt(curl.get(), CURLOPT_URL, url.c_str());
  curl_easy_setopt(curl.get(), CURLOPT_WRITEFUNCTION, append);
  curl_easy_setopt(curl.get(), CURLOPT_WRITEDATA, &answer);
  constexpr long limit = 400;  // seconds; as the stories': it only breaks deadlocks
  curl_easy_setopt(curl.get(), CURLOPT_TIMEOUT, limit);
  curl_easy_setopt(curl.get(), CURLOPT_NOPROXY, "*");
  if (body) curl_easy_setopt(curl.get(), CURLOPT_COPYPOSTFIELDS, sent.c_str());
  if (!certificate_.empty()) curl_easy_setopt(curl.get(), CURLOPT_CAINFO, certificate_.c_str());
  if (const auto failed = curl_easy_perform(curl.get()); failed != CURLE_OK)
    return failure("no emulator answers at " + api_ + ": " + curl_easy_strerror(failed));
  auto document = json::parse(answer, nullptr, false);
  if (document.is_discarded()) return failure(api_ + " is not an emulator: it answers no JSON");
  if (document.is_object() && document.contains("error")) return failure(text(document["error"]));
  return document;
}

Result<void> Client::stop() const {
  const auto answer = call("stop", json::object());
  if (!answer) return tl::unexpected(answer.error());
  const pid_t pid = answer->value("pid", 0);
  for (int i = 0; i < 1500 && pid > 0; ++i) {
    if (!is_alive(pid)) return {};
    std::this_thread::sleep_for(std::chrono::milliseconds{10});
  }
  return failure("the emulator, process " + std::to_string(pid) + ", has not ended after 15 s");
}

Result<FaultArguments> parse_fault(const std::vector<std::string>& words) {
  static const std::map<std::string, std::vector<std::string>> positions = {
      {"latency", {"action", "of"}},
      {"throttle", {"action", "for"}},
      {"fail-next", {"action", "count", "code"}},
      {"deny", {"action", "on"}},
      {"imds", {"mode", "for"}},
      {"capacity", {"zone", "instances"}},
      {"batch-drain", {"on"}},
      {"batch-start", {"of"}},
      {"s3-slow", {"rate"}},
      {"s3-reset", {"after"}},
      {"s3-public", {"bucket", "on"}},
      {"s3-requester-pays", {"bucket", "on"}}};
  FaultArguments fault{words.at(0) == "fail" ? "fail-next" : words.at(0), {}};
  const auto names = positions.find(fault.name);
  std::size_t position = 0;
  for (std::size_t i = 1; i < words.size(); ++i) {
    if (const auto equals = words[i].find('='); equals != std::string::npos) {
      fault.arguments[words[i].substr(0, equals)] = words[i].substr(equals + 1);
    } else if (names != positions.end() && position < names->second.size()) {
      fault.arguments[names->second[position++]] = words[i];
    } else {
      return failure("fault " + fault.name + ": what is '" + words[i] + "'? write NAME=VALUE; " +
                     "`spotter-emulator fault --list` prints them all");
    }
  }
  return fault;
}

std::string describe_state(const json& state) {
  std::string result =
      "mode " + state.value("mode", "?") + ", region " + state.value("region", "?") + "\n";
  for (const char* kind :
       {"pools", "reservations", "instances", "volumes", "snapshots", "fleets", "buckets"}) {
    if (!state.contains(kind)) continue;
    result += std::string(kind) + ": " + std::to_string(state[kind].size()) + "\n";
    for (const auto& item : state[kind]) result += describe_item(item);
  }
  return result;
}

}  // namespace spotter::emulator

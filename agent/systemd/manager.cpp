#include "agent/systemd/manager.hpp"

#include <poll.h>
#include <systemd/sd-bus.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "agent/systemd/message.hpp"

namespace spotter::units {
namespace {

constexpr const char* kService = "org.freedesktop.systemd1";
constexpr const char* kPath = "/org/freedesktop/systemd1";
constexpr const char* kInterface = "org.freedesktop.systemd1.Manager";
constexpr const char* kPrivate = "unix:path=/run/systemd/private";
constexpr std::uint64_t microseconds_to_answer = 10'000'000;
constexpr int milliseconds_to_look_again = 500;

// A reply and an error, both freed at the end.
struct Answer {
  sd_bus_error error = SD_BUS_ERROR_NULL;
  sd_bus_message* message = nullptr;
  Answer() = default;
  Answer(const Answer&) = delete;
  Answer& operator=(const Answer&) = delete;
  ~Answer() {
    sd_bus_error_free(&error);
    sd_bus_message_unref(message);
  }
};

int open_bus(sd_bus*& bus) {
  int result = sd_bus_new(&bus);
  if (result >= 0) result = sd_bus_set_address(bus, kPrivate);
  if (result >= 0) result = sd_bus_start(bus);
  if (result >= 0) return result;
  bus = sd_bus_unref(bus);
  return sd_bus_open_system(&bus);
}

int append_command(sd_bus_message* message, const std::vector<std::string>& command) {
  int result = sd_bus_message_open_container(message, 'r', "sv");
  if (result >= 0) result = sd_bus_message_append(message, "s", "ExecStart");
  if (result >= 0) result = sd_bus_message_open_container(message, 'v', "a(sasb)");
  if (result >= 0) result = sd_bus_message_open_container(message, 'a', "(sasb)");
  if (result >= 0) result = sd_bus_message_open_container(message, 'r', "sasb");
  if (result >= 0) result = sd_bus_message_append(message, "s", command.front().c_str());
  if (result >= 0) result = sd_bus_message_open_container(message, 'a', "s");
  for (const auto& word : command)
    if (result >= 0) result = sd_bus_message_append(message, "s", word.c_str());
  if (result >= 0) result = sd_bus_message_close_container(message);
  if (result >= 0) result = sd_bus_message_append(message, "b", 0);
  for (int container = 0; container < 4; ++container)
    if (result >= 0) result = sd_bus_message_close_container(message);
  return result;
}

int fill(sd_bus_message* message, const std::string& unit, const std::vector<std::string>& command,
         const Settings& settings) {
  int result = sd_bus_message_append(message, "ss", unit.c_str(), "fail");
  if (result >= 0) result = sd_bus_message_open_container(message, 'a', "(sv)");
  for (const auto& setting : settings)
    if (result >= 0) result = append(message, setting);
  if (result >= 0) result = append_command(message, command);
  if (result >= 0) result = sd_bus_message_close_container(message);
  return result < 0 ? result : sd_bus_message_append(message, "a(sa(sv))", 0);
}

}  // namespace

Result<std::unique_ptr<Manager>> Manager::connect() {
  sd_bus* bus = nullptr;
  const int result = open_bus(bus);
  std::unique_ptr<Manager> manager(new Manager(bus));
  if (result >= 0 && manager->listen()) return manager;
  return failure(std::string("systemd cannot be asked: ") +
                 std::strerror(result < 0 ? -result : EIO));
}

Manager::~Manager() {
  sd_bus_slot_unref(slot_);
  sd_bus_flush_close_unref(bus_);
}

bool Manager::listen() {
  sd_bus_set_method_call_timeout(bus_, microseconds_to_answer);
  const auto handler = [](sd_bus_message* message, void* ended, sd_bus_error* error) {
    return on_removed(message, ended, error);
  };
  return sd_bus_match_signal(bus_, &slot_, nullptr, kPath, kInterface, "JobRemoved", handler,
                             &ended_) >= 0;
}

int Manager::on_removed(sd_bus_message* message, void* ended, void* /*error*/) {
  std::uint32_t number = 0;
  const char* job = nullptr;
  const char* unit = nullptr;
  const char* how = nullptr;
  if (sd_bus_message_read(message, "uoss", &number, &job, &unit, &how) > 0)
    (*static_cast<std::map<std::string, std::string>*>(ended))[job] = how;
  return 0;
}

Result<std::string, Manager::Refused> Manager::start(const std::string& unit,
                                                     const std::vector<std::string>& command,
                                                     const Settings& settings) {
  const auto refused = [&unit](Refusal why, const std::string& words) {
    return tl::unexpected(Refused{why, "systemd does not start " + unit + ": " + words});
  };
  Answer call;
  int result = sd_bus_message_new_method_call(bus_, &call.message, kService, kPath, kInterface,
                                              "StartTransientUnit");
  if (result >= 0) result = fill(call.message, unit, command, settings);
  if (result < 0) return refused(Refusal::Other, std::strerror(-result));
  Answer answer;
  result = sd_bus_call(bus_, call.message, 0, &answer.error, &answer.message);
  if (result < 0) {
    const bool exists =
        sd_bus_error_has_name(&answer.error, "org.freedesktop.systemd1.UnitExists") != 0;
    const char* words = answer.error.message;
    return refused(exists ? Refusal::Exists : Refusal::Other,
                   words != nullptr ? words : std::strerror(-result));
  }
  const char* job = nullptr;
  result = sd_bus_message_read(answer.message, "o", &job);
  if (result <= 0) return refused(Refusal::Other, "its answer is not understood");
  return std::string(job);
}

// When PID 1 re-executes itself, it closes all connections.
bool Manager::reconnect() {
  slot_ = sd_bus_slot_unref(slot_);
  bus_ = sd_bus_close_unref(bus_);
  return open_bus(bus_) >= 0 && listen();
}

bool Manager::is_loaded(const std::string& unit) {
  Answer answer;
  const int result = sd_bus_call_method(bus_, kService, kPath, kInterface, "GetUnit", &answer.error,
                                        &answer.message, "s", unit.c_str());
  return result >= 0 ||
         sd_bus_error_has_name(&answer.error, "org.freedesktop.systemd1.NoSuchUnit") == 0;
}

std::string Manager::wait(const std::string& unit, const std::string& job, int stop) {
  bool missed = false;  // the signal may have been sent before we listened
  while (true) {
    int more = 0;
    do more = sd_bus_process(bus_, nullptr);
    while (more > 0);
    if (const auto found = ended_.find(job); found != ended_.end()) return found->second;
    if (more < 0) {
      missed = true;
      while (!reconnect()) {
        pollfd stopped{stop, POLLIN, 0};
        if (poll(&stopped, 1, milliseconds_to_look_again) > 0) return {};
      }
    }
    if (missed && !is_loaded(unit)) return "gone";
    const int events = sd_bus_get_events(bus_);
    std::array<pollfd, 2> watched{
        pollfd{sd_bus_get_fd(bus_), static_cast<short>(events > 0 ? events : POLLIN), 0},
        pollfd{stop, POLLIN, 0}};
    poll(watched.data(), watched.size(), milliseconds_to_look_again);
    if (watched[1].revents != 0) return {};
  }
}

void Manager::stop(const std::string& unit) {
  Answer answer;
  sd_bus_call_method(bus_, kService, kPath, kInterface, "StopUnit", &answer.error, &answer.message,
                     "ss", unit.c_str(), "replace");
}

std::string Manager::system_state() {
  sd_bus_set_method_call_timeout(bus_, 1'000'000);  // a busy PID 1 must not cost the notice
  char* state = nullptr;
  const int got =
      sd_bus_get_property_string(bus_, kService, kPath, kInterface, "SystemState", nullptr, &state);
  std::string text = got >= 0 ? state : "";
  std::free(state);
  return text;
}

}  // namespace spotter::units

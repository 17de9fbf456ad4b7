#include "agent/units/manager.hpp"

#include <poll.h>
#include <systemd/sd-bus.h>

#include <array>
#include <cstdlib>
#include <cstring>

namespace spotter::units {
namespace {

constexpr const char* kService = "org.freedesktop.systemd1";
constexpr const char* kPath = "/org/freedesktop/systemd1";
constexpr const char* kInterface = "org.freedesktop.systemd1.Manager";
constexpr const char* kPrivate = "unix:path=/run/systemd/private";
constexpr std::uint64_t microseconds_to_answer = 10'000'000;
constexpr int milliseconds_to_look_again = 500;

// A reply and an error, both freed at the end.
struct Answer : Pinned {
  sd_bus_error error = SD_BUS_ERROR_NULL;
  sd_bus_message* message = nullptr;
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
    (*static_cast<std::map<std::string, std::string>*>(ended))[unit] = how;
  return 0;
}

// When PID 1 re-executes itself, it closes all connections.
bool Manager::reconnect() {
  slot_ = sd_bus_slot_unref(slot_);
  bus_ = sd_bus_close_unref(bus_);
  return open_bus(bus_) >= 0 && listen();
}

Manager::Look Manager::look(const std::string& unit) {
  Answer found;
  const int result = sd_bus_call_method(bus_, kService, kPath, kInterface, "GetUnit", &found.error,
                                        &found.message, "s", unit.c_str());
  if (result < 0)
    return sd_bus_error_has_name(&found.error, "org.freedesktop.systemd1.NoSuchUnit") != 0
               ? Look::Absent
               : Look::Unknown;
  const char* path = nullptr;
  if (sd_bus_message_read(found.message, "o", &path) <= 0) return Look::Unknown;
  Answer job;
  if (sd_bus_get_property(bus_, kService, path, "org.freedesktop.systemd1.Unit", "Job", &job.error,
                          &job.message, "(uo)") < 0)
    return Look::Unknown;
  std::uint32_t number = 0;
  const char* name = nullptr;
  if (sd_bus_message_read(job.message, "(uo)", &number, &name) <= 0) return Look::Unknown;
  return number == 0 ? Look::Settled : Look::HasJob;
}

bool Manager::is_loaded(const std::string& unit) {
  const Look seen = look(unit);
  return seen == Look::HasJob || seen == Look::Settled;
}

std::string Manager::wait(const std::string& unit, int stop) {
  while (true) {
    const Look seen = look(unit);
    // Behind the look: of what it saw the signal was sent before.
    int more = 0;
    do more = sd_bus_process(bus_, nullptr);
    while (more > 0);
    if (seen == Look::Absent || seen == Look::Settled) {
      const auto how = ended_.find(unit);
      if (how != ended_.end()) return how->second;
      return seen == Look::Absent ? "gone" : "done";
    }
    while (more < 0 && !reconnect()) {
      pollfd stopped{stop, POLLIN, 0};
      if (poll(&stopped, 1, milliseconds_to_look_again) > 0) return {};
    }
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

bool Manager::power_off() {
  Answer answer;
  return sd_bus_call_method(bus_, kService, kPath, kInterface, "StartUnit", &answer.error,
                            &answer.message, "ss", "poweroff.target", "replace-irreversibly") >= 0;
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

#include "tests/emulator/machines.hpp"

#include <signal.h>
#include <spdlog/spdlog.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/ip/address_v4.hpp>
#include <chrono>
#include <fstream>
#include <sstream>
#include <thread>
#include <utility>

#include "tests/emulator/namespaces.hpp"
#include "tests/emulator/process_tree.hpp"

namespace spotter::emulator {
namespace fs = std::filesystem;
namespace {

constexpr int addresses_to_try = 64;
constexpr std::chrono::seconds death_limit{10};

void close_descriptor(int& descriptor) {
  if (descriptor >= 0) ::close(descriptor);
  descriptor = -1;
}

// The kernel ends a pid namespace's init only after all its processes are gone; in user mode the
// descendants become ours (we are a subreaper) and are reaped here.
bool wait_until_gone(pid_t init, const std::vector<pid_t>& others) {
  const auto limit = std::chrono::steady_clock::now() + death_limit;
  for (;;) {
    bool gone = ::waitpid(init, nullptr, WNOHANG) != 0 || ::kill(init, 0) != 0;
    for (const pid_t pid : others) {
      ::waitpid(pid, nullptr, WNOHANG);
      gone = gone && ::kill(pid, 0) != 0;
    }
    if (gone || std::chrono::steady_clock::now() > limit) return gone;
    std::this_thread::sleep_for(std::chrono::milliseconds{1});
  }
}

}  // namespace

Machines::Machines(boost::asio::io_context& context, MachineSettings settings, Handlers handlers)
    : context_(context), settings_(std::move(settings)), handlers_(std::move(handlers)) {}

Machines::~Machines() { kill_all(); }

fs::path Machines::folder(const InstanceId& id) const {
  return settings_.directory / "instances" / id.str();
}

std::vector<std::string> Machines::environment(const InstanceId& id) const {
  return environment(id, metadata_endpoint(id));
}

std::vector<std::string> Machines::environment(const InstanceId& id,
                                               const std::string& metadata) const {
  auto result = settings_.kind->environment(folder(id), metadata);
  result.insert(result.end(), settings_.environment.begin(), settings_.environment.end());
  return result;
}

HttpHandler Machines::metadata_of(const InstanceId& id) {
  return [this, id](const HttpRequest& request) { return handlers_.metadata(id, request); };
}

// One loopback address an instance: the listener is the identity.
Result<void> Machines::listen_outside(const InstanceId& id, Machine& machine) {
  const auto base = boost::asio::ip::make_address_v4(settings_.metadata.address).to_uint();
  Error last{"no address"};
  for (int i = 0; i < addresses_to_try; ++i) {
    const Endpoint endpoint{boost::asio::ip::address_v4(base + next_address_++).to_string(),
                            settings_.metadata.port};
    HttpService metadata{metadata_of(id)};
    metadata.owners_only = [](const HttpRequest&) { return true; };
    auto listener = Listener::open(context_, endpoint, std::move(metadata));
    if (listener) {
      machine.endpoint = "http://" + (*listener)->endpoint().str();
      machine.listeners.push_back(std::move(*listener));
      return {};
    }
    last = listener.error();
  }
  return tl::unexpected(last);
}

Result<void> Machines::listen_inside(const InstanceId& id, Machine& machine) {
  auto& [metadata, api] = machine.init.listeners;
  auto for_metadata = Listener::adopt(context_, std::exchange(metadata, -1), {metadata_of(id)});
  if (!for_metadata) return tl::unexpected(for_metadata.error());
  auto for_api = Listener::adopt(context_, std::exchange(api, -1), handlers_.api);
  if (!for_api) return tl::unexpected(for_api.error());
  machine.endpoint = "http://169.254.169.254";
  machine.listeners.push_back(std::move(*for_metadata));
  machine.listeners.push_back(std::move(*for_api));
  return {};
}

Result<void> Machines::boot(const world::InstanceStarted& started, Machine& machine) {
  const fs::path home = folder(started.id);
  const InitOptions options{namespaces(),
                            settings_.kind->ends_with_program(),
                            settings_.kind->program(home).string(),
                            home.string(),
                            (home / "console.log").string(),
                            environment(started.id, machine.endpoint),
                            settings_.kind->isolation(home)};
  auto init = start_init(options);
  if (!init) return tl::unexpected(init.error());
  machine.init = *init;
  if (namespaces())
    if (auto listening = listen_inside(started.id, machine); !listening) return listening;
  if (::write(machine.init.socket, "G", 1) != 1) return failure("the instance's init is gone");
  machine.channel =
      std::make_unique<InitChannel>(context_, machine.init.socket, handlers_.on_words);
  spdlog::info("{} runs as process {} in {}", started.id.view(), machine.init.pid, home.string());
  return {};
}

Result<void> Machines::start(const world::InstanceStarted& started) {
  kill(started.id);
  Machine& machine = machines_[started.id];
  if (!namespaces() || !started.process)
    if (auto listening = listen_outside(started.id, machine); !listening) return listening;
  if (!started.process) return {};
  if (auto made = settings_.kind->furnish(started, folder(started.id)); !made) return made;
  return boot(started, machine);
}

void Machines::send(const InstanceId& id, const Words& words) {
  const auto found = machines_.find(id);
  if (found != machines_.end() && found->second.channel) found->second.channel->send(words);
}

void Machines::shut_down(const InstanceId& id) {
  const auto found = machines_.find(id);
  if (found == machines_.end()) return;
  found->second.asked_to_shut_down = true;
  if (found->second.init.pid > 0) settings_.kind->shut_down(found->second.init.pid);
}

void Machines::cut_power(const InstanceId& id) {
  const auto pid = inside(id);
  if (!pid) return;
  const std::string root = "/proc/" + std::to_string(*pid) + "/root";
  for (const auto& device : devices_of ? devices_of(id) : std::vector<std::string>{})
    for (const auto& place : mount_points(id, device))
      if (auto cut = emulator::cut_power((root + place).c_str()); !cut)
        spdlog::warn("{}: {}", id.view(), cut.error().message);
}

void Machines::kill(const InstanceId& id) {
  const auto found = machines_.find(id);
  if (found == machines_.end()) return;
  Machine& machine = found->second;
  if (const pid_t init = machine.init.pid; init > 0) {
    const auto others = emulator::freeze(init);
    if (namespaces() && !machine.asked_to_shut_down) cut_power(id);
    kill_tree(init);
    if (!wait_until_gone(init, namespaces() ? std::vector<pid_t>{} : others))
      spdlog::error("{}: some of its processes do not die", id.view());
  }
  close_descriptor(machine.init.socket);
  for (int& listener : machine.init.listeners) close_descriptor(listener);
  settings_.kind->clear(folder(id));
  machines_.erase(found);
  if (!namespaces()) kill_strays();
}

void Machines::kill_all() {
  while (!machines_.empty()) kill(InstanceId(machines_.begin()->first));
  next_address_ = 0;
}

std::optional<InstanceId> Machines::init_ended(pid_t pid) {
  for (auto& [id, machine] : machines_) {
    if (machine.init.pid != pid) continue;
    machine.init.pid = -1;  // the number may be another process's from now on
    if (machine.asked_to_shut_down) return std::nullopt;  // and the world says when it is dead
    return id;
  }
  return std::nullopt;
}

// Children of ours that are no init: in user mode, what a dead init has left behind. /proc is not
// read in one instant: a process that gets a new parent meanwhile is seen the next time.
void Machines::kill_strays() {
  const pid_t self = ::getpid();
  for (int looks_without_one = 0; looks_without_one < 2; ++looks_without_one) {
    for (const pid_t pid : descendants(self)) {
      const bool known = std::any_of(machines_.begin(), machines_.end(), [&](const auto& entry) {
        return entry.second.init.pid == pid;
      });
      if (known || parent_of(pid) != self) continue;
      auto others = descendants(pid);
      kill_tree(pid);
      wait_until_gone(pid, others);
      looks_without_one = -1;
    }
  }
}

std::string Machines::metadata_endpoint(const InstanceId& id) const {
  const auto found = machines_.find(id);
  return found == machines_.end() ? std::string{} : found->second.endpoint;
}

std::optional<pid_t> Machines::init_of(const InstanceId& id) const {
  const auto found = machines_.find(id);
  if (found == machines_.end() || found->second.init.pid <= 0) return std::nullopt;
  return found->second.init.pid;
}

std::optional<pid_t> Machines::inside(const InstanceId& id) const {
  const auto init = init_of(id);
  const pid_t pid = init ? settings_.kind->inside(*init) : 0;
  if (pid <= 0) return std::nullopt;
  return pid;
}

std::vector<pid_t> Machines::freeze(const InstanceId& id) const {
  const auto init = init_of(id);
  return init ? emulator::freeze(*init) : std::vector<pid_t>{};
}

// https://man7.org/linux/man-pages/man5/proc_pid_mountinfo.5.html: id, parent, major:minor, root,
// mount point; a blank in a path is \040.
std::vector<std::string> Machines::mount_points(const InstanceId& id,
                                                const std::string& device) const {
  std::vector<std::string> places;
  const auto pid = inside(id);
  if (!pid) return places;
  std::ifstream mounts("/proc/" + std::to_string(*pid) + "/mountinfo");
  for (std::string line; std::getline(mounts, line);) {
    std::istringstream fields(line);
    std::string number, parent, major_minor, root, place;
    fields >> number >> parent >> major_minor >> root >> place;
    for (auto blank = place.find("\\040"); blank != std::string::npos; blank = place.find("\\040"))
      place.replace(blank, 4, " ");
    if (major_minor == device) places.push_back(place);
  }
  return places;
}

}  // namespace spotter::emulator

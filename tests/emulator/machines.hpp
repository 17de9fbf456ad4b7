// The instances of this machine: their folders, processes and listening sockets.
//   DIR/instances/i-*/{console.log,devices/,...}: what else is in it, its kind says
#pragma once

#include <sys/types.h>

#include <boost/asio/io_context.hpp>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/base/names.hpp"
#include "agent/base/result.hpp"
#include "tests/emulator/init.hpp"
#include "tests/emulator/init_channel.hpp"
#include "tests/emulator/instance_kind.hpp"
#include "tests/emulator/listener.hpp"
#include "tests/world/occurrence.hpp"

namespace spotter::emulator {

struct MachineSettings {
  std::filesystem::path directory;           // absolute
  std::shared_ptr<const InstanceKind> kind;  // what an instance is here
  Endpoint metadata;  // of the first instance outside namespaces; the next adds one
  std::vector<std::string>
      environment;  // NAME=VALUE for every instance, as if baked into its image
};

class Machines {
 public:
  struct Handlers {
    std::function<HttpResponse(const InstanceId&, const HttpRequest&)> metadata;
    HttpService api;                             // as seen from inside an instance
    std::function<void(const Words&)> on_words;  // from an instance's init, of its containers
  };
  Machines(boost::asio::io_context& context, MachineSettings settings, Handlers handlers);
  ~Machines();  // kills all

  void add_environment(std::string assignment) {
    settings_.environment.push_back(std::move(assignment));
  }

  // A stopped instance comes back to its folder; what lay in its run/ is gone, as with any boot.
  Result<void> start(const world::InstanceStarted& started);
  // The power button.
  void shut_down(const InstanceId& id);
  // Returns when every process of the instance is gone. Root's instances lose what their file
  // systems had not written, like in a power cut, unless they had been asked to shut down.
  void kill(const InstanceId& id);
  void kill_all();
  // To the instance's init, of its containers (containers.hpp). To one without: nothing.
  void send(const InstanceId& id, const Words& words);
  // NAME=VALUE, as its user data has it.
  std::vector<std::string> environment(const InstanceId& id) const;
  // A child of this process ended and was reaped: returns the instance whose init it was. The
  // instance's remains go with its kill(). None: it was no init, or had been asked to end.
  std::optional<InstanceId> init_ended(pid_t pid);

  std::filesystem::path folder(const InstanceId& id) const;
  std::filesystem::path devices(const InstanceId& id) const { return folder(id) / "devices"; }
  // The instance's metadata service, as the instance itself sees it.
  std::string metadata_endpoint(const InstanceId& id) const;
  // The process that sees the instance's mounts.
  std::optional<pid_t> inside(const InstanceId& id) const;
  // While this lives, the instance's processes stand still (user mode: a folder is copied as it
  // is).
  std::vector<pid_t> freeze(const InstanceId& id) const;
  // The mount points in the instance of the device numbered "7:0", as paths of its own.
  std::vector<std::string> mount_points(const InstanceId& id, const std::string& device) const;
  // Loop devices ("7:0") of this instance, as the disks know them.
  std::function<std::vector<std::string>(const InstanceId&)> devices_of;

 private:
  struct Machine {
    InitProcess init;
    bool asked_to_shut_down = false;
    std::vector<std::unique_ptr<Listener>> listeners;
    std::string endpoint;
    std::unique_ptr<InitChannel> channel;
  };

  Result<void> boot(const world::InstanceStarted& started, Machine& machine);
  HttpHandler metadata_of(const InstanceId& id);
  Result<void> listen_outside(const InstanceId& id, Machine& machine);
  Result<void> listen_inside(const InstanceId& id, Machine& machine);
  std::vector<std::string> environment(const InstanceId& id, const std::string& metadata) const;
  bool namespaces() const { return settings_.kind->namespaces(); }
  std::optional<pid_t> init_of(const InstanceId& id) const;
  void cut_power(const InstanceId& id);
  void kill_strays();

  boost::asio::io_context& context_;
  MachineSettings settings_;
  Handlers handlers_;
  std::map<InstanceId, Machine> machines_;
  unsigned next_address_ = 0;
};

}  // namespace spotter::emulator

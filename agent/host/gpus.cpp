#include "agent/host/gpus.hpp"

#include <algorithm>
#include <cctype>
#include <sstream>
#include <thread>
#include <vector>

#include "agent/base/number_text.hpp"
#include "agent/host/verb.hpp"
#include "agent/io/files.hpp"

namespace spotter::act::host {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr auto gpu_looked_at_every = 1s;
constexpr const char* driver = "nvidia-utils (the GPU's driver)";

bool is_there(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

// "nvidia0" is a GPU's, "nvidia-uvm" and "nvidiactl" are not.
std::size_t count_nodes(const fs::path& devices) {
  std::size_t count = 0;
  std::error_code error;
  for (fs::directory_iterator at(devices, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    count += name.rfind("nvidia", 0) == 0 && name.size() > 6 &&
             std::all_of(name.begin() + 6, name.end(), [](unsigned char c) { return isdigit(c); });
  }
  return count;
}

std::string missing_node(std::size_t count, const fs::path& devices) {
  for (const char* name : {"nvidiactl", "nvidia-uvm"}) {
    if (!is_there(devices / name)) return (devices / name).string() + " is not there";
  }
  const std::size_t nodes = count_nodes(devices);
  if (nodes >= count) return {};
  return std::to_string(nodes) + " of " + std::to_string(count) + " device nodes " +
         (devices / "nvidia*").string() + " are there";
}

// The trainer's user cannot: nvidia-modprobe is setuid, which a sandbox forbids. If it is not
// installed, nvidia-smi or udev have made them, or the look says what is missing.
void make_nodes(std::size_t count, const fs::path& devices) {
  if (missing_node(count, devices).empty()) return;
  ToolRequest gpus{.argv = {"nvidia-modprobe"}};
  for (std::size_t i = 0; i < count; ++i) {
    gpus.argv.insert(gpus.argv.end(), {"-c", std::to_string(i)});
  }
  (void)run_tool(gpus, driver);
  const ToolRequest memory{.argv = {"nvidia-modprobe", "-u", "-c", "0"}};
  (void)run_tool(memory, driver);
}

// NVSwitches of which the GPUs themselves say nothing (A100: p4d): the service must be up, where
// there is a systemd to ask.
std::string unready_manager(const fs::path& devices) {
  if (!is_there(devices / "nvidia-nvswitch0")) return {};
  const auto asked = run_tool({.argv = {"systemctl", "is-active", "nvidia-fabricmanager"}}, "");
  if (!asked || asked->status == 0) return {};
  return "the service nvidia-fabricmanager is " + last_words(*asked);
}

Result<GpuLook> look(std::size_t count, const fs::path& devices) {
  const auto listed = run_tool({.argv = {"nvidia-smi", "-L"}}, driver);
  if (!listed) return fail("gpus-absent", listed.error().message);
  GpuLook seen;
  seen.count = count_gpus(listed->output);
  if (seen.count < count) {
    seen.words = std::to_string(seen.count) + " of " + std::to_string(count) +
                 " GPUs answer; nvidia-smi -L says: " + last_words(*listed);
    return seen;
  }
  make_nodes(count, devices);
  seen.words = missing_node(count, devices);
  if (seen.words.empty()) seen.words = unready_manager(devices);
  if (!seen.words.empty()) return seen;
  const auto queried = run_tool({.argv = {"nvidia-smi", "-q"}}, driver);
  if (!queried) return fail("gpus-absent", queried.error().message);
  seen.words = unready_fabric(queried->output);
  return seen;
}

}  // namespace

std::size_t count_gpus(const std::string& listed) {
  std::size_t count = 0;
  std::istringstream lines(listed);
  for (std::string line; std::getline(lines, line);) {
    const bool numbered = line.rfind("GPU ", 0) == 0 && line.size() > 4 && isdigit(line[4]);
    count += numbered && line.find("UUID") != std::string::npos;
  }
  return count;
}

std::string unready_fabric(const std::string& queried) {
  std::istringstream lines(queried);
  std::size_t section =
      std::string::npos;  // the indentation of the heading "Fabric" that we are in
  for (std::string line; std::getline(lines, line);) {
    const std::string text(trimmed(line));
    if (text.empty()) continue;
    const std::size_t indented = line.find_first_not_of(" \t");
    if (text == "Fabric") {
      section = indented;
      continue;
    }
    if (section == std::string::npos) continue;
    if (indented <= section) {
      section = std::string::npos;
      continue;
    }
    const auto colon = text.find(':');
    if (colon == std::string::npos) continue;
    const std::string key(trimmed(std::string_view(text).substr(0, colon)));
    const std::string value(trimmed(std::string_view(text).substr(colon + 1)));
    const bool wrong_state = key == "State" && value != "Completed" && value != "N/A";
    const bool wrong_status = key == "Status" && value != "Success" && value != "N/A";
    if (wrong_state || wrong_status) return "the NVLink fabric's " + key + " is " + value;
  }
  return {};
}

std::size_t count_pci_gpus(const fs::path& sysfs) {
  const auto attribute = [](const fs::path& path) {
    return std::string(trimmed(io::read_file(path, 4096).value_or("").substr(0, 8)));
  };
  std::size_t count = 0;
  std::error_code error;
  for (fs::directory_iterator at(sysfs / "bus/pci/devices", error), end; !error && at != end;
       at.increment(error)) {
    // A display or 3D controller; the bridges of NVLink (0x0680) are NVIDIA's, too.
    const std::string kind = attribute(at->path() / "class").substr(0, 6);
    count += attribute(at->path() / "vendor").starts_with("0x10de") &&
             (kind == "0x0300" || kind == "0x0302");
  }
  return count;
}

Result<void> await_gpus(const verbs::AwaitGpus& asked, const Machine& machine) {
  const fs::path& devices = machine.devices;
  std::size_t count = asked.count;
  if (count == 0) count = std::max<std::size_t>(1, count_pci_gpus(machine.sysfs));
  make_nodes(count, devices);
  for (const auto until = Clock::now() + asked.wait;;) {
    const auto seen = look(count, devices);
    if (!seen) return tl::unexpected(seen.error());
    if (seen->words.empty()) return {};
    if (Clock::now() >= until) return fail("gpus-absent", seen->words);
    std::this_thread::sleep_for(
        std::min<Clock::duration>(gpu_looked_at_every, until - Clock::now()));
  }
}

}  // namespace spotter::act::host

// GPUs by a fake nvidia-smi: what it says, what it makes, and when.
#include "agent/host/device.hpp"

#include <cstdlib>

#include "disk.hpp"

namespace spotter::act::host {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

constexpr const char* kTwo =
    "GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-5d5ba0d6-d33d-2b2c-524d-9e3d8d2b8a77)\n"
    "  MIG 3g.20gb     Device  0: (UUID: MIG-c6d4f1ef-42e4-5de3-91c7-45d71c87eb3f)\n"
    "GPU 1: NVIDIA A100-SXM4-40GB (UUID: GPU-38f84ef0-0ae5-4a1c-8f64-5c1a6d2c5b90)\n";

// The output of `nvidia-smi -q` of driver 550, cut to what stands around the fabric.
std::string fabric(const std::string& state, const std::string& status) {
  return "==============NVSMI LOG==============\n\nGPU 00000000:10:1C.0\n"
         "    Product Name                          : NVIDIA H100 80GB HBM3\n"
         "    Fabric\n"
         "        State                             : " +
         state +
         "\n"
         "        Status                            : " +
         status +
         "\n"
         "        CliqueId                          : 0\n"
         "    Processes                             : None\n"
         "    State                                 : Odd\n";
}

class Gpus : public Directory {
 protected:
  void SetUp() override {
    Directory::SetUp();
    path_ = std::getenv("PATH");
    ::setenv("PATH", ((directory_ / "bin").string() + ":" + path_).c_str(), 1);
    fs::create_directories(directory_ / "dev");
  }
  void TearDown() override {
    ::setenv("PATH", path_.c_str(), 1);
    Directory::TearDown();
  }
  void program(const std::string& name, const std::string& script) const {
    const auto file =
        write("bin/" + name, "#!/bin/sh\ncd '" + directory_.string() + "'\n" + script);
    fs::permissions(file, fs::perms::owner_all);
  }
  // Lists what is in `listed`, and tells of the fabric what is in `queried`.
  void smi(const std::string& listed, const std::string& queried = "") const {
    write("listed", listed);
    write("queried", queried);
    program("nvidia-smi", "case $1 in -L) cat listed ;; -q) cat queried ;; esac\n");
  }
  void nodes(int count) const {
    for (const char* name : {"nvidiactl", "nvidia-uvm", "nvidia-caps"}) {
      write(std::string("dev/") + name, "");
    }
    for (int i = 0; i < count; ++i) write("dev/nvidia" + std::to_string(i), "");
  }
  Result<void> await(std::uint8_t count, std::chrono::milliseconds wait = 0ms) const {
    return await_gpus({count, wait}, {.devices = directory_ / "dev"});
  }

 private:
  std::string path_;
};

TEST(GpuWords, CountGpusAndNotTheirSlices) {
  EXPECT_EQ(count_gpus(kTwo), 2U);
  EXPECT_EQ(count_gpus("No devices were found\n"), 0U);
  EXPECT_EQ(count_gpus("Unable to determine the device handle for GPU0000:00:1E.0: Unknown "
                       "Error\n"),
            0U);
  EXPECT_EQ(count_gpus(""), 0U);
}

TEST(GpuWords, TellWhetherTheFabricIsReady) {
  EXPECT_EQ(unready_fabric(fabric("Completed", "Success")), "");
  EXPECT_EQ(unready_fabric(fabric("N/A", "N/A")), "");
  EXPECT_EQ(unready_fabric("GPU 0\n    Processes : None\n"), "") << "an older driver";
  EXPECT_EQ(unready_fabric(fabric("In Progress", "N/A")),
            "the NVLink fabric's State is In Progress");
  EXPECT_EQ(unready_fabric(fabric("Completed", "Success") + fabric("Completed", "Timeout")),
            "the NVLink fabric's Status is Timeout")
      << "of the second GPU";
}

TEST_F(Gpus, AreReadyWhenEnoughAnswerAndHaveTheirNodes) {
  smi(kTwo, fabric("Completed", "Success"));
  nodes(2);
  EXPECT_EQ(words_of(await(2)), "ok");
  EXPECT_EQ(words_of(await(1)), "ok") << "more than enough";
}

TEST_F(Gpus, ThatAreMissingAreCounted) {
  smi(kTwo);
  nodes(2);
  const auto waited = await(8);
  EXPECT_EQ(kind_of(waited), "gpus-absent");
  EXPECT_EQ(words_of(waited).rfind("2 of 8 GPUs answer; nvidia-smi -L says: GPU 0", 0), 0U)
      << words_of(waited);
}

TEST_F(Gpus, ADriverThatCannotReachOneIsReportedInItsOwnWords) {
  program("nvidia-smi", "echo 'Unable to determine the device handle' >&2; exit 15\n");
  EXPECT_NE(words_of(await(1)).find("Unable to determine"), std::string::npos);
}

TEST_F(Gpus, WithoutADriverTheImageIsWrong) {
  const std::string path = std::getenv("PATH");
  ::setenv("PATH", (directory_ / "bin").c_str(), 1);
  if (fs::exists("/usr/bin/nvidia-smi")) GTEST_SKIP() << "this machine has a driver";
  const auto waited = await(1, 10min);  // and nothing is waited for
  ::setenv("PATH", path.c_str(), 1);
  EXPECT_EQ(kind_of(waited), "gpus-absent");
  EXPECT_NE(words_of(waited).find("nvidia-smi"), std::string::npos);
}

TEST_F(Gpus, NodesAreMadeWhereTheyAreMissing) {
  smi(kTwo);
  program(
      "nvidia-modprobe",
      "echo \"$@\" >>asked\n"
      "case $1 in -c) touch dev/nvidiactl dev/nvidia0 dev/nvidia1 ;; -u) touch dev/nvidia-uvm ;;"
      " esac\n");
  EXPECT_EQ(words_of(await(2)), "ok");
  EXPECT_EQ(must_run({"cat", (directory_ / "asked").string()}), "-c 0 -c 1\n-u -c 0\n");
}

TEST_F(Gpus, ANodeThatNobodyMakesIsNamed) {
  smi(kTwo);
  nodes(1);
  program("nvidia-modprobe", "exit 1\n");
  EXPECT_EQ(words_of(await(2)).rfind("1 of 2 device nodes", 0), 0U);
  fs::remove(directory_ / "dev/nvidia-uvm");
  EXPECT_NE(words_of(await(2)).find("nvidia-uvm is not there"), std::string::npos);
}

// The second look finds what the first one's programs left.
TEST_F(Gpus, TheFabricIsAwaited) {
  smi(kTwo);
  nodes(2);
  write("ready", fabric("Completed", "Success"));
  write("queried", fabric("In Progress", "N/A"));
  program("nvidia-smi", "case $1 in -L) cat listed ;; -q) cat queried; cp ready queried ;; esac\n");
  EXPECT_EQ(words_of(await(2, 10min)), "ok");
}

TEST_F(Gpus, TheManagerOfSwitchesIsAwaited) {
  smi(kTwo);
  nodes(2);
  write("dev/nvidia-nvswitch0", "");
  program("systemctl", "echo activating; exit 3\n");
  EXPECT_EQ(words_of(await(2)), "the service nvidia-fabricmanager is activating");
  program("systemctl", "echo active\n");
  EXPECT_EQ(words_of(await(2)), "ok");
}

// A display controller, a 3D one, a bridge of NVLink, and another maker's.
TEST_F(Gpus, AllAreThoseOfThePciBus) {
  const auto device = [this](const std::string& at, const std::string& vendor,
                             const std::string& kind) {
    write("sys/bus/pci/devices/" + at + "/vendor", vendor + "\n");
    write("sys/bus/pci/devices/" + at + "/class", kind + "\n");
  };
  device("0000:00:1d.0", "0x10de", "0x030200");
  device("0000:00:1e.0", "0x10de", "0x030000");
  device("0000:00:1f.0", "0x10de", "0x068000");
  device("0000:00:03.0", "0x1d0f", "0x030000");
  EXPECT_EQ(count_pci_gpus(directory_ / "sys"), 2U);
  EXPECT_EQ(count_pci_gpus(directory_ / "nowhere"), 0U);
  nodes(2);
  smi(kTwo);
  Machine machine{directory_ / "dev", directory_ / "sys"};
  EXPECT_TRUE(await_gpus({}, machine));
  device("0000:00:20.0", "0x10de", "0x030200");
  const auto fewer = await_gpus({}, machine);
  ASSERT_FALSE(fewer);
  EXPECT_EQ(fewer.error().kind, "gpus-absent");
  EXPECT_NE(fewer.error().message.find("2 of 3"), std::string::npos) << fewer.error().message;
  machine.sysfs = directory_ / "nowhere";
  EXPECT_TRUE(await_gpus({}, machine)) << "where the bus says nothing, one is enough";
}

}  // namespace
}  // namespace spotter::act::host

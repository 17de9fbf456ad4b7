// What systemd is asked, as D-Bus carries it; and what a verb gets by way of a file.
#include "agent/systemd/message.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fstream>

#include "agent/host/verb_request.hpp"

namespace spotter::units {
namespace {

using namespace std::chrono_literals;

// A bus to nobody: enough to make messages for.
class Messages : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends_), 0);
    ASSERT_GE(sd_bus_new(&bus_), 0);
    ASSERT_GE(sd_bus_set_fd(bus_, ends_[0], ends_[0]), 0);
    ASSERT_GE(sd_bus_start(bus_), 0);
    begin();
  }
  void TearDown() override {
    sd_bus_message_unref(message_);
    sd_bus_unref(bus_);
    ::close(ends_[1]);
  }
  void begin() {
    message_ = sd_bus_message_unref(message_);
    ASSERT_GE(sd_bus_message_new_method_call(bus_, &message_, "a.b", "/", "a.b", "C"), 0);
  }
  // What systemd would read of a setting: its name there and its value's type.
  std::string carried(const Setting& setting) {
    begin();
    if (append(message_, setting) < 0 || sd_bus_message_seal(message_, 1, 0) < 0) return "refused";
    const char* name = nullptr;
    const char* type = nullptr;
    if (sd_bus_message_enter_container(message_, 'r', "sv") < 0 ||
        sd_bus_message_read(message_, "s", &name) < 0 ||
        sd_bus_message_peek_type(message_, nullptr, &type) < 0)
      return "unreadable";
    return std::string(name) + " " + type;
  }
  template <class T>
  T number(const Setting& setting) {
    const auto as = carried(setting);
    T value{};
    sd_bus_message_read(message_, "v", as.substr(as.find(' ') + 1).c_str(), &value);
    return value;
  }

  int ends_[2] = {-1, -1};
  sd_bus* bus_ = nullptr;
  sd_bus_message* message_ = nullptr;
};

const TrainerPlace place{.name = "job",
                         .run_directory = "/run/spotter",
                         .home = "/mnt/my data",
                         .users_home = "/home/me",
                         .refuses_metadata = true,
                         .memory_max = "90%",
                         .cpu_quota = "150%",
                         .cpu_weight = "50"};

TEST_F(Messages, CarryEverySettingOfEveryUnit) {
  auto all = of_trainer(place);
  for (const auto& more : {of_verb(5s, true), of_anchor("/mnt/my data")})
    all.insert(all.end(), more.begin(), more.end());
  for (const auto& setting : all)
    EXPECT_GE(append(message_, setting), 0) << setting.name << "=" << setting.value;
}

TEST_F(Messages, NameAndTypeAreThoseOfDBus) {
  EXPECT_EQ(carried({"TimeoutStopSec", "150"}), "TimeoutStopUSec t");
  EXPECT_EQ(carried({"SystemCallFilter", "@system-service"}), "SystemCallFilter (bas)");
  EXPECT_EQ(carried({"ReadWritePaths", "-/mnt/my data"}), "ReadWritePaths as");
  EXPECT_EQ(carried({"DeviceAllow", "char-nvidia* rw"}), "DeviceAllow a(ss)");
  EXPECT_EQ(carried({"IPAddressDeny", "169.254.169.254 fd00:ec2::254"}), "IPAddressDeny a(iayu)");
  EXPECT_EQ(carried({"IPAddressDeny", "169.254.169.254/32"}), "refused");
  EXPECT_EQ(carried({"MemoryMax", "48G"}), "MemoryMax t");
  EXPECT_EQ(carried({"MemoryMax", "90%"}), "MemoryMaxScale u");
  EXPECT_EQ(carried({"NoSuchSetting", "yes"}), "refused");
  EXPECT_EQ(carried({"CapabilityBoundingSet", "CAP_NO_SUCH"}), "refused");
}

TEST_F(Messages, ValuesAreWhatTheWordsMean) {
  EXPECT_EQ(number<std::uint64_t>({"MemoryMax", "48G"}), std::uint64_t{48} << 30);
  EXPECT_EQ(number<std::uint32_t>({"MemoryMax", "100%"}), ~std::uint32_t{0});
  EXPECT_EQ(number<std::uint64_t>({"CPUQuota", "150%"}), 1'500'000U);
  EXPECT_EQ(number<std::uint64_t>({"TasksMax", "infinity"}), ~std::uint64_t{0});
  EXPECT_EQ(number<std::uint64_t>({"CapabilityBoundingSet", "CAP_CHOWN CAP_KILL"}), 0x21U);
  EXPECT_EQ(number<std::uint32_t>({"UMask", "0077"}), 077U);
  EXPECT_EQ(number<std::int32_t>({"OOMScoreAdjust", "-500"}), -500);
}

TEST(Settings, OfATrainerThatMountsViewsOfDataLetASetuidProgramMount) {
  auto views = place;
  views.mounts = true;
  const auto text = to_unit_file(of_trainer(views), "/bin/true");
  EXPECT_EQ(text.find("NoNewPrivileges"), text.npos);
  EXPECT_NE(text.find("CAP_SYS_ADMIN"), text.npos);
  EXPECT_EQ(to_unit_file(of_trainer(place), "/bin/true").find("CAP_SYS_ADMIN"), text.npos);
}

TEST(Settings, KeepATrainerFromTheMetadataServiceUnlessItMayAsk) {
  auto may = place;
  may.refuses_metadata = false;
  EXPECT_NE(to_unit_file(of_trainer(place), "/bin/true")
                .find("IPAddressDeny=169.254.169.254 fd00:ec2::254\n"),
            std::string::npos);
  EXPECT_EQ(to_unit_file(of_trainer(may), "/bin/true").find("IPAddressDeny"), std::string::npos);
}

TEST(Settings, LeaveTasksToTheAgentAndTheSystem) {
  std::uint64_t most = 0;
  for (const Setting& each : of_trainer(place))
    if (each.name == "TasksMax") most = std::stoull(each.value);
  std::uint64_t of_kernel = 0;
  ASSERT_TRUE(std::ifstream("/proc/sys/kernel/threads-max") >> of_kernel);
  EXPECT_GT(most, 0U);
  EXPECT_LE(most, of_kernel / 2);
  EXPECT_LE(most, 32'768U);
}

TEST(Settings, LeaveTheSystemAloneWhoeverTheTrainersUserIs) {
  for (const char* home : {"/", "", "/root", "/home/me"}) {
    auto user = place;
    user.users_home = home;
    const auto text = to_unit_file(of_trainer(user), "/bin/true");
    EXPECT_NE(text.find("ReadWritePaths=-/mnt\n"), text.npos);
    EXPECT_EQ(text.find("ReadWritePaths=-/mnt/my data\n"), text.npos) << "it lies below that";
    for (const char* system : {"/", "/usr", "/etc", "/boot", "/run", "/home"})
      EXPECT_EQ(text.find(std::string("ReadWritePaths=-") + system + "\n"), text.npos) << system;
  }
}

TEST(Settings, GiveALongCheckpointItsTime) {
  auto slow = place;
  slow.grace = 10min;
  EXPECT_NE(to_unit_file(of_trainer(slow), "/bin/true").find("TimeoutStopSec=660\n"),
            std::string::npos);
}

TEST(Settings, OfAnAnchorHaveANameThatIsThatOfOneMountPoint) {
  EXPECT_EQ(anchor_unit("/mnt/my-data"), "spotter-storage-mnt-my\\x2ddata.service");
}

TEST(VerbRequest, IsReadAsItWasWritten) {
  const command::VerbRequest request{
      42, "/run/answer", {"A=1", "B=two\nlines"}, std::string("in\0put", 6)};
  const auto bytes = to_bytes(request);
  const auto read = command::parse_verb_request(bytes);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->asker, 42);
  EXPECT_EQ(read->answer, request.answer);
  EXPECT_EQ(read->environment, request.environment);
  EXPECT_EQ(read->json, request.json);
  for (std::size_t size = 0; size < bytes.size() - request.json.size(); ++size)
    EXPECT_FALSE(command::parse_verb_request(bytes.substr(0, size))) << size;
}

}  // namespace
}  // namespace spotter::units

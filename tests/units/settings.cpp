// The settings of our units for systemd; and what a verb gets by way of a file.
#include "agent/units/settings.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "agent/host/host.hpp"

namespace spotter::units {
namespace {

using namespace std::chrono_literals;

const TrainerPlace place{.name = "job",
                         .run_directory = "/run/spotter",
                         .home = "/mnt/my data",
                         .users_home = "/home/me",
                         .refuses_metadata = true,
                         .memory_max = "90%",
                         .cpu_quota = "150%",
                         .cpu_weight = "50"};

// Every kind of a trainer's unit that job.yaml and the machine's accounts can ask for.
std::vector<TrainerPlace> kinds() {
  std::vector<TrainerPlace> all{place};
  const auto also = [&](auto change) {
    for (std::size_t i = 0, known = all.size(); i < known; ++i) {
      TrainerPlace other = all[i];
      change(other);
      all.push_back(std::move(other));
    }
  };
  also([](TrainerPlace& it) { it.refuses_metadata = false; });
  also([](TrainerPlace& it) { it.memory_max = it.cpu_quota = it.cpu_weight = ""; });
  also([](TrainerPlace& it) {
    it.user = "me";
    it.owner = "1001:1001";
  });
  also([](TrainerPlace& it) { it.users_home = "/root"; });
  also([](TrainerPlace& it) {
    it.program = "/usr/bin/spotter";
    it.views_folder = "ml/input/data";
    it.views = {"train"};
  });
  return all;
}

// The exit status of `systemd-analyze security` for a unit of this text: 0, at most so exposed.
int judged(const TrainerPlace& kind, int tenths) {
  char name[] = "/tmp/spotter-units-XXXXXX";
  const std::string folder = ::mkdtemp(name);
  const std::string unit = folder + "/spotter-trainer-job.service";
  std::ofstream(unit) << to_unit_file(of_trainer(kind), "/bin/true");
  const std::string command =
      "systemd-analyze security --offline=true --no-pager --threshold=" + std::to_string(tenths) +
      " " + unit + " >/dev/null 2>&1";
  const int status = std::system(command.c_str());
  std::filesystem::remove_all(folder);
  return status;
}

// The form in which systemd-run(1) gets a setting; empty: it does not.
std::string property_of(const std::vector<std::string>& words, const std::string& name) {
  const std::string begin = "--property=" + name + "=";
  for (const std::string& word : words)
    if (word.starts_with(begin)) return word.substr(begin.size());
  return {};
}

TEST(Start, HasEverySettingOfEveryUnit) {
  for (const auto& settings : {of_trainer(place), of_verb(5s, true), of_anchor("/mnt/my data")}) {
    const auto words = to_start("a.service", {"/bin/true", "one word"}, settings);
    EXPECT_EQ(words.front(), "systemd-run");
    EXPECT_EQ(words.size(), 4 + settings.size() + 3);
    for (const Setting& each : settings) EXPECT_NE(property_of(words, each.name), "") << each.name;
    EXPECT_EQ((std::vector<std::string>(words.end() - 3, words.end())),
              (std::vector<std::string>{"--", "/bin/true", "one word"}));
  }
}

TEST(Start, QuotesPathsAlone) {
  const auto words = to_start("a.service", {"/bin/true"},
                              {{"RequiresMountsFor", "/mnt/my \"data\\"},
                               {"ReadWritePaths", "-/mnt/my data"},
                               {"DeviceAllow", "char-nvidia* rw"}});
  EXPECT_EQ(property_of(words, "RequiresMountsFor"), R"("/mnt/my \"data\\")");
  EXPECT_EQ(property_of(words, "ReadWritePaths"), R"("-/mnt/my data")");
  EXPECT_EQ(property_of(words, "DeviceAllow"), "char-nvidia* rw");
}

TEST(Settings, OfATrainerWithViewsOfDataAreThoseOfEveryOther) {
  auto views = place;
  views.program = "/usr/bin/spotter";
  views.views_folder = "ml/input/data";
  views.user = "me";
  views.views = {"train", "a b"};
  const auto before = of_trainer(place), with = of_trainer(views);
  ASSERT_EQ(with.size(), before.size() + 3);
  for (std::size_t i = 0; i < before.size(); ++i) {
    EXPECT_EQ(with[i].name, before[i].name);
    EXPECT_EQ(with[i].value, before[i].value);
  }
  const auto text = to_unit_file(with, "/bin/true");
  EXPECT_NE(text.find("ExecStartPre=+\"/usr/bin/spotter\" views --home \"/mnt/my data\" --folder "
                      "\"ml/input/data\" --user \"me\" \"train\" \"a b\"\n"),
            text.npos)
      << text;
  EXPECT_NE(text.find("NoNewPrivileges=yes\n"), text.npos);
  EXPECT_EQ(text.find("CAP_SYS_ADMIN"), text.npos);
}

// `scripts/check unit` and SECURITY.md have the same number.
TEST(Settings, LeaveNoKindOfTrainerMoreExposedThanSecurityMdSays) {
  const auto most = [](const TrainerPlace& it) { return it.users_home == "/root" ? 33 : 32; };
  for (const TrainerPlace& kind : kinds())
    EXPECT_EQ(judged(kind, most(kind)), 0) << to_unit_file(of_trainer(kind), "/bin/true");
  EXPECT_NE(judged(place, most(place) - 1), 0) << "it is less by now: say so";
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

TEST(Settings, LeaveNoCoreFilesOfWhatHasSecrets) {
  const auto trainer = to_unit_file(of_trainer(place), "/bin/true");
  EXPECT_NE(trainer.find("\nLimitCORE=0:infinity\n"), trainer.npos)
      << "the trainer may raise its own";
  const auto verb = to_unit_file(of_verb(std::chrono::seconds(1), false), "/bin/true");
  EXPECT_NE(verb.find("\nLimitCORE=0\n"), verb.npos);
}

TEST(Settings, LeaveNoWayOutOfTheUnitByProgramsOfOthers) {
  const auto text = to_unit_file(of_trainer(place), "/bin/true");
  for (const char* way : {"/run/user", "/run/dbus", "/run/docker.sock", "/home/me/.ssh"})
    EXPECT_NE(text.find(std::string("InaccessiblePaths=-") + way + "\n"), text.npos) << way;
}

TEST(Settings, LeaveAPersonsHomeAsItIsButForCaches) {
  auto person = place;
  person.owner = "1001:1002";
  const auto text = to_unit_file(of_trainer(person), "/bin/true");
  EXPECT_EQ(text.find("ReadWritePaths=-/home/me\n"), text.npos);
  EXPECT_NE(text.find("ReadOnlyPaths=-/home/me\n"), text.npos);
  EXPECT_NE(text.find("ReadWritePaths=-/home/me/.cache\n"), text.npos);
  EXPECT_NE(text.find("ExecStartPre=-+/usr/bin/setpriv --reuid=1001 --regid=1002 "), text.npos);
  auto inside = person;
  inside.users_home = "/srv/me";
  inside.home = "/srv/me/jobs";
  EXPECT_NE(to_unit_file(of_trainer(inside), "/bin/true").find("ReadWritePaths=-/srv/me/jobs\n"),
            text.npos);
  inside.home = "/srv/me";
  EXPECT_EQ(to_unit_file(of_trainer(inside), "/bin/true").find("ReadOnlyPaths"), text.npos);
  auto no_home = person;
  no_home.users_home = "";
  const auto own = to_unit_file(of_trainer(no_home), "/bin/true");
  EXPECT_EQ(own.find("ReadOnlyPaths"), own.npos) << "such as the package's own user";
  EXPECT_EQ(own.find("setpriv"), own.npos);
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
  const command::VerbRequest request{42, "/run/answer", {"A=1", "B=two\nlines"}, "input"};
  const auto bytes = to_bytes(request);
  const auto read = command::parse_verb_request(bytes);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->asker, 42);
  EXPECT_EQ(read->answer, request.answer);
  EXPECT_EQ(read->environment, request.environment);
  EXPECT_EQ(read->json, request.json);
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    const auto part = command::parse_verb_request(bytes.substr(0, size));
    EXPECT_EQ(part.has_value(), size > sizeof "42" + request.answer.size()) << size;
    EXPECT_NE(part.value_or(command::VerbRequest{}).json, request.json) << size;
  }
}

}  // namespace
}  // namespace spotter::units

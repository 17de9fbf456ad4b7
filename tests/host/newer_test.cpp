// Data that a later version of Spotter has written to the storage is refused with a sentence that
// says so, before anything there is written, and by each reader for itself. Data that cannot be
// read is not absent.
#include <pwd.h>

#include <array>
#include <functional>
#include <utility>

#include "agent/guard/record.hpp"
#include "agent/host/attempt.hpp"
#include "agent/host/device.hpp"
#include "agent/host/host.hpp"
#include "agent/host/layout.hpp"
#include "agent/host/mount.hpp"
#include "agent/host/records.hpp"
#include "agent/sweep/summary.hpp"
#include "disk.hpp"
#include "tests/trainer/contents.hpp"
#include "tests/trainer/newer_manifest.hpp"
#include "trainer/library/checkpoint.hpp"

namespace spotter::act::host {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

constexpr const char* sentence = "was written by a newer Spotter (format 2";
constexpr const char* of_the_record = "was written by a newer Spotter (format 4";

class NewerStorage : public Directory {
 protected:
  void SetUp() override {
    Directory::SetUp();
    fs::create_directory(volume());
    if (const auto* entry = ::getpwuid(::geteuid())) user_ = entry->pw_name;
    if (user_.empty()) GTEST_SKIP() << "our own user has no name";
    ASSERT_TRUE(format(volume(), "xfs"));
    ASSERT_TRUE(mount(request()));
    ASSERT_TRUE(write_ledger(volume(), {.ledger = {.newest_step = 2}}));
    for (const std::uint64_t step : {1, 2}) {
      const std::array parts = {checkpoint::Part{"model", "m"}};
      ASSERT_TRUE(checkpoint::save(volume() / "checkpoints", step, parts, {}));
    }
    ASSERT_TRUE(keep_metrics(volume() / "metrics.jsonl", "{\"step\":1,\"loss\":2}\n", {}));
    test::write_file(volume() / ".spotter/history.jsonl", "{\"time\":1,\"what\":\"left\"}\n");
    test::write_file(volume() / ".spotter/checkpoints.json", guard::encode({}));
    ASSERT_TRUE(unmount(mount_point(), 0s));
  }
  fs::path volume() const { return directory_ / "vol-0"; }
  fs::path mount_point() const { return directory_ / "instance" / "mnt"; }
  verbs::Mount request() const {
    return {.device = volume(),
            .filesystem = "xfs",
            .mount_point = mount_point(),
            .volume = "vol-0123456789abcdef0",
            .user = user_};
  }
  // Its first version member says 2.
  void raise(const fs::path& path) const {
    std::string text = test::read_file(path);
    const auto at = text.find("\"version\":1");
    if (at != std::string::npos)
      text.replace(at, 11, "\"version\":2");
    else
      text.replace(text.rfind("\n{") + 1, 1, "{\"version\":2,");
    test::write_file(path, text);
  }
  std::string user_;
};

TEST_F(NewerStorage, IsNotMountedAndNothingOfItIsWritten) {
  const auto good = test::contents(volume());
  const auto line = [this](const char* name) {
    const fs::path path = volume() / name;
    test::write_file(path, test::read_file(path) + "{\"version\":2}\n");
  };
  const std::vector<std::pair<std::string, std::function<void()>>> newer = {
      {".spotter/volume.json", [&] { raise(volume() / ".spotter/volume.json"); }},
      {".spotter/ledger.json", [&] { raise(volume() / ".spotter/ledger.json"); }},
      {".spotter/history.jsonl", [&] { line(".spotter/history.jsonl"); }},
      {"metrics.jsonl", [&] { line("metrics.jsonl"); }},
      {".spotter/checkpoints.json",
       [&] {
         const fs::path path = volume() / ".spotter/checkpoints.json";
         test::write_file(path, test::newer_manifest(test::read_file(path), 4));
       }},
      {"checkpoints", [&] { test::make_newer(volume() / "checkpoints/step-000000000002"); }}};
  for (const auto& [what, raise_it] : newer) {
    raise_it();
    const auto before = test::contents(volume());
    for (const bool read_only : {false, true}) {
      verbs::Mount asked = request();
      asked.read_only = read_only;
      const auto refused = mount(asked);
      EXPECT_EQ(kind_of(refused), "newer-format") << what;
      const bool record = what == ".spotter/checkpoints.json";
      EXPECT_NE(words_of(refused).find(record ? of_the_record : sentence), std::string::npos)
          << words_of(refused);
      EXPECT_NE(words_of(refused).find(what), std::string::npos) << words_of(refused);
      EXPECT_FALSE(look(mount_point())->mounted) << what;
    }
    EXPECT_EQ(test::contents(volume()), before) << what;
    for (const auto& [name, bytes] : good) {  // the newer Spotter is back
      if (!name.ends_with('/')) test::write_file(volume() / name, bytes);
    }
    EXPECT_TRUE(mount(request())) << what;
    ASSERT_TRUE(unmount(mount_point(), 0s));
  }
}

// A package may be rolled back while a trainer runs, and the storage is mounted.
TEST_F(NewerStorage, IsRefusedByEachWhoReadsAndWrites) {
  raise(volume() / ".spotter/ledger.json");
  raise(volume() / ".spotter/volume.json");
  test::make_newer(volume() / "checkpoints/step-000000000002");
  const fs::path curve = volume() / "metrics.jsonl";
  test::write_file(curve, test::read_file(curve) + "{\"version\":2}\n");
  const auto before = test::contents(volume());
  EXPECT_EQ(kind_of(read_ledger(volume())), "newer-format");
  EXPECT_EQ(kind_of(write_ledger(volume(), {})), "newer-format");
  EXPECT_EQ(kind_of(read_volume_record(volume())), "newer-format");
  EXPECT_EQ(kind_of(keep_metrics(curve, "{\"step\":9,\"loss\":2}\n", {})), "newer-format");
  for (const bool read_only : {false, true}) {
    const auto verified = verify_checkpoints({volume(), "checkpoints", read_only});
    EXPECT_EQ(kind_of(verified), "verify-failed") << "the older one is not taken for it";
    EXPECT_NE(words_of(verified).find(sentence), std::string::npos) << words_of(verified);
  }
  EXPECT_FALSE(sweep::summary_of(volume(), 0, {}));
  EXPECT_EQ(test::contents(volume()), before);
}

// A directory in the place of the file: a read that fails for whoever we are, root among them.
TEST_F(NewerStorage, WhatCannotBeReadIsNotOverwritten) {
  const fs::path account = volume() / ".spotter/ledger.json";
  const fs::path record = volume() / ".spotter/volume.json";
  for (const fs::path& path : {account, record}) {
    fs::remove(path);
    fs::create_directory(path);
  }
  EXPECT_FALSE(write_ledger(volume(), {}));
  EXPECT_FALSE(read_volume_record(volume()));
  EXPECT_FALSE(mount(request())) << "whose files they are is not known";
  EXPECT_FALSE(sweep::summary_of(volume(), 0, {})) << "an experiment that has begun does not wait";
  EXPECT_TRUE(fs::is_directory(account));
  EXPECT_TRUE(fs::is_directory(record));
}

}  // namespace
}  // namespace spotter::act::host

// Every call by which a file of ours is written fails once, with each error that a disk has, or
// writes a part only.
#include <fcntl.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <set>

#include "tests/faults/writers.hpp"
#include "tests/trainer/shim.hpp"

namespace spotter::test {
namespace {

namespace fs = std::filesystem;

class Faults : public testing::TestWithParam<Writer> {
 protected:
  fs::path fresh() {
    remove();
    std::string name = (fs::temp_directory_path() / "faults-XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
    return folder_;
  }
  ~Faults() override { remove(); }
  void remove() const {
    if (folder_.empty()) return;
    fs::remove_all(folder_);
  }

  std::set<std::string> names() const {
    std::set<std::string> all;
    for (const auto& each : fs::recursive_directory_iterator(folder_))
      all.insert(fs::relative(each.path(), folder_));
    return all;
  }

  fs::path folder_;
};

// Generation 1 is there; of 2 the call number `at` fails. False: there were not so many calls.
struct Outcome {
  bool reached = false;
  bool said = false;  // that it was written
};

Outcome write_with(const Writer& writer, const fs::path& folder, int at, int error, bool shortly) {
  Outcome outcome;
  int calls = 0;
  Shim shim;
  const auto is_it = [&](const Call& call) {
    if (shortly && call.kind != Call::Kind::Write) return false;
    outcome.reached = outcome.reached || calls == at;
    return calls++ == at;
  };
  if (shortly) {
    shim.shorten = [&](const Call& call) {
      return is_it(call) ? call.bytes.size() / 2 : call.bytes.size();
    };
  } else {
    shim.before = [&](const Call& call) { return is_it(call) ? error : 0; };
  }
  shim.install(folder.string());
  shim.follow(folder.string());
  outcome.said = writer.write(folder, 2);
  shim.remove();
  return outcome;
}

TEST_P(Faults, LeaveTheOldOrTheNewWholeAndAreSaidAndTheNextAttemptSucceeds) {
  const Writer& writer = GetParam();
  for (const int error : {EIO, ENOSPC, EDQUOT}) {
    int calls = 0;
    for (int at = 0;; ++at) {
      const fs::path folder = fresh();
      prepare(folder);
      ASSERT_TRUE(writer.write(folder, 1));
      const auto before = names();
      const auto [reached, said] = write_with(writer, folder, at, error, false);
      if (!reached) break;
      ++calls;
      const int seen = writer.read(folder);
      EXPECT_TRUE(seen == 1 || seen == 2) << "call " << at << ": " << seen;
      EXPECT_FALSE(said) << "call " << at << " failed with " << error << " and nobody said so";
      if (!said) {
        EXPECT_EQ(names(), before) << "call " << at;
      }
      EXPECT_TRUE(writer.write(folder, 2)) << "after call " << at;
      EXPECT_EQ(writer.read(folder), 2) << "after call " << at;
    }
    EXPECT_GE(calls, 2) << "no call was seen";
  }
}

TEST_P(Faults, AShortWriteIsGoneOnWith) {
  const Writer& writer = GetParam();
  int calls = 0;
  for (int at = 0;; ++at) {
    const fs::path folder = fresh();
    prepare(folder);
    ASSERT_TRUE(writer.write(folder, 1));
    const auto [reached, said] = write_with(writer, folder, at, 0, true);
    if (!reached) break;
    ++calls;
    EXPECT_TRUE(said);
    EXPECT_EQ(writer.read(folder), 2) << "write " << at;
  }
  EXPECT_GE(calls, 1) << "no write was seen";
}

INSTANTIATE_TEST_SUITE_P(OfEach, Faults, testing::ValuesIn(writers()), [](const auto& each) {
  std::string name = each.param.name;
  std::erase(name, ' ');
  return name;
});

}  // namespace
}  // namespace spotter::test

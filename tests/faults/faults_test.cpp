// Every call by which a file of ours is written fails once, with each error that a disk has, or
// writes a part only.
#include <fcntl.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <set>
#include <sstream>

#include "agent/host/share.hpp"
#include "tests/faults/writers.hpp"
#include "tests/trainer/shim.hpp"

namespace spotter::test {
namespace {

namespace fs = std::filesystem;

// The disk's behaviour from a call on.
enum class Fault {
  Once,     // this one fails
  Lasting,  // and all after it
  Short,    // this write writes a part
  Full,     // and all after it fail
};

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
    fs::remove_all(beside(folder_));
  }

  void try_all(Fault fault, int error);

  std::set<std::string> names() const {
    std::set<std::string> all;
    for (const auto& each : fs::recursive_directory_iterator(folder_))
      all.insert(fs::relative(each.path(), folder_));
    return all;
  }

  fs::path folder_;
};

// Generation 1 is there, and 2 is written.
struct Outcome {
  bool reached = false;  // there were so many calls
  bool said = false;     // that it was written
};

Outcome write_with(const Writer& writer, const fs::path& folder, Fault fault, int at, int error) {
  Outcome outcome;
  int calls = 0;
  Shim shim;
  const bool of_writes = fault == Fault::Short || fault == Fault::Full;
  shim.shorten = [&](const Call& call) {
    const bool part = of_writes && call.bytes.size() > 1 && calls++ == at;
    outcome.reached = outcome.reached || part;
    return part ? call.bytes.size() / 2 : call.bytes.size();
  };
  shim.before = [&](const Call& call) {
    if (of_writes)
      return fault == Fault::Full && call.kind == Call::Kind::Write && calls > at + 1 ? error : 0;
    const int number = calls++;
    outcome.reached = outcome.reached || number == at;
    return number == at || (fault == Fault::Lasting && number > at) ? error : 0;
  };
  shim.install(folder.string());
  shim.follow(folder.string());
  outcome.said = writer.write(folder, 2);
  shim.remove();
  return outcome;
}

// After a failure the old or the new is there whole, and the next attempt succeeds.
void Faults::try_all(Fault fault, int error) {
  const Writer& writer = GetParam();
  int calls = 0;
  for (int at = 0;; ++at, ++calls) {
    SCOPED_TRACE("call " + std::to_string(at) + ", " + std::strerror(error));
    const fs::path folder = fresh();
    prepare(folder);
    ASSERT_TRUE(writer.write(folder, 1));
    const auto before = names();
    const auto [reached, said] = write_with(writer, folder, fault, at, error);
    if (!reached) break;
    EXPECT_EQ(said, fault == Fault::Short);
    const int seen = writer.read(folder);
    EXPECT_TRUE(seen == 2 || (seen == 1 && !said)) << seen;
    if (!said && fault != Fault::Lasting) {
      EXPECT_EQ(names(), before);
    }
    if (!said) {
      EXPECT_TRUE(writer.write(folder, 2));
    }
    EXPECT_EQ(writer.read(folder), 2);
    if (writer.is_exact && fault != Fault::Lasting) {
      EXPECT_TRUE(writer.is_exact(folder, 2));
    }
  }
  EXPECT_GE(calls, fault == Fault::Once || fault == Fault::Lasting ? 2 : 1) << "too few were seen";
}

TEST_P(Faults, OfOneCallAreSaidAndLeaveTheOldOrTheNewWhole) {
  for (const int error : {EIO, ENOSPC, EDQUOT}) try_all(Fault::Once, error);
}

TEST_P(Faults, OfADiskThatStaysSoAreSaidAndLeaveTheOldOrTheNewWhole) {
  for (const int error : {EIO, ENOSPC, EDQUOT, EROFS}) try_all(Fault::Lasting, error);
}

TEST_P(Faults, OfADiskThatIsFullAfterAPartOfAWriteAreSaidToo) {
  for (const int error : {EIO, ENOSPC, EDQUOT}) try_all(Fault::Full, error);
}

TEST_P(Faults, AShortWriteIsGoneOnWith) { try_all(Fault::Short, 0); }

// The machine's own file system may know no holes (FAT, some FUSE), or say that it has none.
TEST(KeptLog, IsTheSameWhereNoHoleCanBeMade) {
  std::string name = (fs::temp_directory_path() / "holes-XXXXXX").string();
  const fs::path folder = ::mkdtemp(name.data());
  int punched = 0;
  Shim shim;
  shim.before = [&](const Call& call) {
    const bool punches = call.kind == Call::Kind::Punch;
    punched += punches ? 1 : 0;
    return punches ? EOPNOTSUPP : 0;
  };
  std::ofstream(folder / "local.log") << "";
  shim.install(folder.string());
  shim.follow(folder.string());
  std::string said;
  for (int i = 0; i < 3; ++i) {
    const std::size_t before = said.size();
    for (int line = 0; line < 100'000; ++line)
      said += std::to_string(i) + " " + std::to_string(line) + "\n";
    std::ofstream(folder / "local.log", std::ios::app) << said.substr(before);
    EXPECT_TRUE(act::host::keep_log(folder / "local.log", folder / "kept.log"));
  }
  shim.remove();
  std::ostringstream kept;
  kept << std::ifstream(folder / "kept.log").rdbuf();
  EXPECT_GE(punched, 3);
  EXPECT_TRUE(kept.str() == said) << kept.str().size() << " bytes, not " << said.size();
  fs::remove_all(folder);
}

INSTANTIATE_TEST_SUITE_P(OfEach, Faults, testing::ValuesIn(writers()), [](const auto& each) {
  std::string name = each.param.name;
  std::erase(name, ' ');
  return name;
});

}  // namespace
}  // namespace spotter::test

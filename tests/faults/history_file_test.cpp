// This machine's own history on a disk that fails: what it has are whole lines, and once the disk
// takes something again, all of them, each once.
#include "agent/service/observe/history_file.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/trainer/shim.hpp"

namespace spotter::test {
namespace {

namespace fs = std::filesystem;

enum class FileFault { Once, Lasting, Short };

class FailingDisk : public testing::TestWithParam<FileFault> {
 protected:
  FailingDisk() {
    std::string name = (fs::temp_directory_path() / "history-XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
  }
  ~FailingDisk() override { fs::remove_all(folder_); }

  static wire::HistoryEntry began() {
    return {1700000000.5, "began", "i-1", {{"booted", 1000}, {"job", "mnist"}}};
  }
  static wire::HistoryEntry entry(int number) {
    return {1700000001.0 + number, "price", "i-1", {{"dollars_per_hour", number}}};
  }
  // The file's, `began` first; nothing that is no entry.
  std::vector<wire::HistoryEntry> recorded() const {
    std::ostringstream text;
    text << std::ifstream(folder_ / "history.jsonl").rdbuf();
    const auto read = wire::parse_history(text.str());
    EXPECT_EQ(read.foreign, 0U) << text.str();
    return read.entries;
  }
  void clear() const {
    for (const auto& each : fs::directory_iterator(folder_)) fs::remove(each);
  }
  // Does `life` as its call `at` fails; false: it has fewer.
  bool with_fault(int at, int error, const std::function<void()>& life) const;

  fs::path folder_;
};

bool FailingDisk::with_fault(int at, int error, const std::function<void()>& life) const {
  int calls = 0;
  bool reached = false;
  Shim shim;
  shim.shorten = [&](const Call& call) {
    const bool part = GetParam() != FileFault::Lasting && calls == at && call.bytes.size() > 1;
    return part ? call.bytes.size() / 2 : call.bytes.size();
  };
  bool shortened = false;
  shim.before = [&](const Call& call) {
    // The rest of a write of which a part was taken fails, and what would take that part back.
    const bool rest =
        shortened && (call.kind == Call::Kind::Write || call.kind == Call::Kind::Truncate);
    const int number = calls++;
    reached = reached || number == at;
    if (GetParam() == FileFault::Short) {
      const bool writes = number == at && call.kind == Call::Kind::Write;
      shortened = writes || (rest && call.kind == Call::Kind::Write);
      return rest ? error : 0;
    }
    return number == at || (GetParam() == FileFault::Lasting && number > at) ? error : 0;
  };
  shim.install(folder_.string());
  shim.follow(folder_.string());
  life();
  shim.remove();
  return reached;
}

TEST_P(FailingDisk, HasEachEntryOnceAfterwards) {
  for (const int error : {EIO, ENOSPC, EDQUOT}) {
    int calls = 0;
    for (;; ++calls) {
      SCOPED_TRACE("call " + std::to_string(calls) + ", " + std::strerror(error));
      clear();
      HistoryFile file(folder_);
      const bool reached = with_fault(calls, error, [&] {
        file.open(began());
        for (int i = 0; i < 4; ++i) file.append(entry(i));
      });
      if (!reached) break;
      file.append(entry(4));
      std::vector<wire::HistoryEntry> all{began()};
      for (int i = 0; i < 5; ++i) all.push_back(entry(i));
      EXPECT_EQ(recorded(), all);
      EXPECT_EQ(wire::parse_history(file.news()).entries, all);
    }
    EXPECT_GE(calls, 6) << "too few were seen";
  }
}

// Another agent goes on with the file: what was not kept is not lost, whatever is there twice.
TEST_P(FailingDisk, ForgetsNoneThatIsNotOnTheStorage) {
  const auto long_one = [&](int number, std::size_t bytes) {
    auto it = entry(number);
    it.fields["text"] = std::string(bytes, 'x');
    return it;
  };
  int calls = 0;
  for (;; ++calls) {
    SCOPED_TRACE("call " + std::to_string(calls));
    clear();
    {
      HistoryFile file(folder_);
      file.open(began());
      for (int i = 0; i < 51; ++i) file.append(long_one(i, 20'000));
      while (!file.news().empty()) file.kept(file.news().size());
      const bool reached = with_fault(calls, ENOSPC, [&] {
        for (int i = 51; i < 55; ++i) file.append(long_one(i, 10'000));  // the oldest go
      });
      if (!reached) break;
      file.append(entry(55));
    }
    HistoryFile next(folder_);
    ASSERT_FALSE(next.open(began()).empty());
    std::vector<double> news;
    for (std::string lines = next.news(); !lines.empty(); lines = next.news()) {
      for (const auto& each : wire::parse_history(lines).entries)
        if (each.time >= entry(51).time) news.push_back(each.time);
      next.kept(lines.size());
    }
    EXPECT_EQ(news, (std::vector{entry(51).time, entry(52).time, entry(53).time, entry(54).time,
                                 entry(55).time}));
    EXPECT_EQ(recorded().front(), began());
  }
  EXPECT_GE(calls, 6) << "too few were seen";
}

INSTANTIATE_TEST_SUITE_P(Each, FailingDisk,
                         testing::Values(FileFault::Once, FileFault::Lasting, FileFault::Short));

TEST(MachinesHistory, GoesOnAfterAnAgentThatDiedInTheMiddleOfALine) {
  std::string name = (fs::temp_directory_path() / "history-XXXXXX").string();
  const fs::path folder = ::mkdtemp(name.data());
  const wire::HistoryEntry began{1.5, "began", "i-1", {{"booted", 1000}, {"job", "mnist"}}};
  const wire::HistoryEntry price{2.5, "price", "i-1"}, rebalance{3.5, "rebalance", "i-1"};
  HistoryFile(folder).open(began);
  {
    HistoryFile file(folder);
    file.open(began);
    file.append(price);
    std::ofstream(folder / "history.jsonl", std::ios::app) << R"({"time":3.25,"what":"reb)";
  }
  HistoryFile file(folder);
  EXPECT_EQ(file.open(began), (std::vector{began, price}));
  file.append(rebalance);
  EXPECT_EQ(file.news(), to_line(began) + to_line(price) + to_line(rebalance));
  fs::remove_all(folder);
}

// A history that cannot be read, or is another job's, is not removed.
TEST(MachinesHistory, BeginsBesideWhatWasThere) {
  std::string name = (fs::temp_directory_path() / "history-XXXXXX").string();
  const fs::path folder = ::mkdtemp(name.data());
  std::ofstream(folder / "history.jsonl") << "what nobody can read\n";
  const wire::HistoryEntry began{1.5, "began", "i-1", {{"booted", 1000}, {"job", "mnist"}}};
  HistoryFile file(folder);
  EXPECT_TRUE(file.open(began).empty());
  EXPECT_EQ(file.news(), to_line(began));
  std::string old;
  std::getline(std::ifstream(folder / "history.jsonl.old"), old);
  EXPECT_EQ(old, "what nobody can read");
  fs::remove_all(folder);
}

}  // namespace
}  // namespace spotter::test

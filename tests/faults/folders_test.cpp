// The power is cut before every call by which a trainer writes checkpoints that are folders and the
// guard records them. The next start finds whole checkpoints, no older than those recorded; the log
// has the rows that were written before it.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <map>

#include "tests/guard/units.hpp"
#include "tests/trainer/lost_power.hpp"

namespace spotter::guard {
namespace {

namespace fs = std::filesystem;
using test::Recording;

using Files = std::map<std::string, std::string>;  // by path below the checkpoints' directory

class FolderCut : public Units {
 protected:
  FolderCut() : first_(mount_) {
    std::string name = "/dev/shm/spotter-guard-XXXXXX";  // where a sync costs nothing
    top_ = ::mkdtemp(name.data());
    use("disk");
  }
  ~FolderCut() override {
    fs::remove_all(top_);
    mount_ = first_;
  }

  // From here on this is the storage, empty.
  void use(const std::string& name) {
    mount_ = top_ / name;
    fs::remove_all(mount_);
    fs::create_directory(mount_);
  }
  void prepare() const {
    for (const char* name : {".spotter", "ckpt"}) fs::create_directories(mount_ / name);
    const Descriptor names(::open(mount_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    ASSERT_EQ(::fsync(names.get()), 0);  // as whoever makes the storage has done it
  }
  Files files() const {
    Files found;
    for (const auto& each : fs::recursive_directory_iterator(path(""))) {
      const std::string name = fs::relative(each.path(), path("")).string();
      if (each.is_regular_file()) found[name] = read(name);
    }
    return found;
  }
  static Files below(const Files& all, const std::string& folder) {
    Files found;
    for (const auto& [name, bytes] : all)
      if (name.starts_with(folder + "/")) found[name] = bytes;
    return found;
  }
  // A trainer's row of the log, which it does not sync.
  void log(std::uint64_t step) const {
    fs::create_directories(mount_ / "logs");
    const Descriptor file(
        ::open((mount_ / "logs/1.csv").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
    const std::string row = std::to_string(step) + "\n";
    ASSERT_EQ(::write(file.get(), row.data(), row.size()), std::ssize(row));
  }
  bool logged(std::uint64_t step) const {
    std::ifstream rows(mount_ / "logs/1.csv");
    for (std::string row; std::getline(rows, row);)
      if (row == std::to_string(step)) return true;
    return false;
  }
  // A file's time comes to the disk with its content (fsync(2)), and the record knows it.
  void set_times(const Files& whole) const {
    for (const auto& [name, bytes] : whole) {
      if (exists(name) && read(name) == bytes)
        fs::last_write_time(path(name), fs::last_write_time(top_ / "disk/ckpt" / name));
    }
  }
  // Says what is wrong with the storage at the next start; empty: nothing.
  std::string wrong_with(std::uint64_t promised, const Files& whole) const;

  // Cuts everywhere, and says what is wrong of the first cut of which something is.
  using Framework = std::function<Steps(const std::string& name)>;
  std::string cut_everywhere(const Framework& framework, bool syncs_are_kept);

 private:
  fs::path first_, top_;
};

std::string FolderCut::wrong_with(std::uint64_t promised, const Files& whole) const {
  const Settled settled = settle();
  const std::uint64_t newest = settled.newest.value_or(0);
  if (newest < promised) {
    std::string words = "the newest is " + std::to_string(newest);
    for (const std::string& each : settled.torn) words += "; " + each;
    for (const std::string& each : settled.said) words += "; " + each;
    return words;
  }
  if (promised != 0 && !logged(promised)) return "the log lacks the row";
  const Files found = files();
  std::uint64_t taken = 0;  // what a framework takes for the latest
  for (const auto& each : fs::directory_iterator(path(""))) {
    const std::string name = each.path().filename().string();
    if (below(found, name) != below(whole, name)) return name + " is torn";
    taken = std::max<std::uint64_t>(taken, std::stoull(name.substr(name.find('-') + 1)));
  }
  return taken == newest ? "" : "a trainer takes " + std::to_string(taken);
}

std::string FolderCut::cut_everywhere(const Framework& framework, bool syncs_are_kept) {
  use("disk");
  Recording recording(mount_);
  prepare();
  {
    Keeper guard = keeper();
    EXPECT_TRUE(guard.begin());
    for (const std::uint64_t step : {10, 20}) {
      const std::string name = "checkpoint-" + std::to_string(step);
      log(step);
      run(framework(name));
      record(guard, name);
      recording.acknowledge(step);
    }
  }
  recording.stop();
  EXPECT_GT(recording.size(), 40U) << "nothing was recorded";
  const Files whole = files();
  std::string first;
  for (std::size_t cut = 1; cut <= recording.size() && first.empty(); ++cut) {
    for (std::uint64_t seed = 0; seed < 12 && first.empty(); ++seed) {
      std::mt19937_64 random(seed * 1000 + cut);
      const double chance = seed == 0 ? 0.0 : seed == 1 ? 1.0 : 0.5;
      use("after");
      const auto model = seed % 3 == 2 ? Recording::Model::Weak : Recording::Model::Journal;
      recording.materialise(cut, {model, chance, syncs_are_kept}, random, mount_);
      prepare();
      set_times(whole);
      const std::uint64_t promised = recording.acknowledged(cut);
      const std::string wrong = wrong_with(promised, whole);
      if (!wrong.empty()) {
        first = wrong + "; promised " + std::to_string(promised) + ", cut " + std::to_string(cut) +
                " of " + std::to_string(recording.size()) + ", seed " + std::to_string(seed);
      }
    }
  }
  return first;
}

TEST_F(FolderCut, OnlyWholeFoldersAndAllThatWereRecordedAreLeft) {
  EXPECT_EQ(cut_everywhere([this](const auto& name) { return transformers(name); }, true), "");
  EXPECT_EQ(cut_everywhere([this](const auto& name) { return transformers(name, true); }, true),
            "");
  EXPECT_EQ(cut_everywhere([this](const auto& name) { return distributed(name); }, true), "");
  EXPECT_EQ(cut_everywhere([this](const auto& name) { return accelerate(name); }, true), "");
}

TEST_F(FolderCut, ADiskThatLiesIsNoticed) {
  EXPECT_NE(cut_everywhere([this](const auto& name) { return transformers(name); }, false), "");
}

}  // namespace
}  // namespace spotter::guard

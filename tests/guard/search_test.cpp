// Every moment at which a script can be killed, or its machine be lost, in its ways of writing: a
// start finds the state after one whole save, none older than what the guard called durable.
#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <ctime>
#include <fstream>

#include "agent/guard/guard.hpp"
#include "tests/guard/units.hpp"

namespace spotter::guard {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

using State = std::map<std::string, std::string>;  // name -> content; of a link: where it leads

enum class Loss { Killed, LostAsItIs, LostHalf, LostZeros, LostAll };
constexpr Loss losses[] = {Loss::Killed, Loss::LostAsItIs, Loss::LostHalf, Loss::LostZeros,
                           Loss::LostAll};
enum class Watchfulness { Always, Slow };  // how often the guard comes to look

struct Step {
  int pause = 0;  // milliseconds before it
  std::function<void()> act;
  bool whole = false;  // after it the script could go on from what is there
};

// A folder of another file system (disks.py), where every seventh life is enough: each moment with
// one loss. In memory all: some 30,000 times what fsync takes.
const char* elsewhere() { return std::getenv("SPOTTER_SEARCH_AT"); }

class Search : public Folder {
 public:
  Search() : Folder(elsewhere() != nullptr ? elsewhere() : "/dev/shm") {}

  // --- what a script does ---
  void open(const std::string& name, const std::string& bytes) {
    fs::create_directories(path(name).parent_path());
    Descriptor file(::open(path(name).c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
    ASSERT_EQ(::write(file.get(), bytes.data(), bytes.size()), std::ssize(bytes));
    open_.insert_or_assign(name, std::move(file));
    touch(name);
  }
  void close(const std::string& name, const std::string& bytes) {
    Descriptor& file = open_.at(name);
    ASSERT_EQ(::write(file.get(), bytes.data(), bytes.size()), std::ssize(bytes));
    open_.erase(name);
    touch(name);
  }
  // Each content has a time of its own, as on a file system with a fine clock. It is of this life,
  // for shares that have no time of change.
  void touch(const std::string& name) {
    const timespec time{began_ + ++clock_, 0};
    const timespec times[] = {time, time};
    ::utimensat(AT_FDCWD, path(name).c_str(), times, 0);
    unsynced_.insert(name);
  }
  void half_and_half(std::vector<Step>& steps, int pause, const std::string& name,
                     const std::string& bytes) {
    const std::size_t half = bytes.size() / 2;
    steps.push_back({pause, [=, this] { open(name, bytes.substr(0, half)); }});
    steps.push_back({20, [=, this] { close(name, bytes.substr(half)); }});
  }
  void open_and_close(const std::string& name, const std::string& bytes) {
    open(name, bytes);
    close(name, "");
  }
  void at_once(std::vector<Step>& steps, int pause, const std::string& name,
               const std::string& bytes) {
    steps.push_back({pause, [=, this] { open_and_close(name, bytes); }});
  }
  void gone(std::vector<Step>& steps, const std::string& name) {
    steps.push_back({5, [=, this] { fs::remove_all(path(name)); }, true});
  }

  std::vector<Step> save_in_place(int k) {
    std::vector<Step> steps;
    half_and_half(steps, 20'000, "last.bin", "weights of save " + std::to_string(k));
    steps.back().whole = true;
    return steps;
  }
  std::vector<Step> save_by_rename(int k) {
    std::vector<Step> steps;
    half_and_half(steps, 20'000, "last.bin.tmp", "weights of save " + std::to_string(k));
    steps.push_back({5,
                     [this] {
                       fs::rename(path("last.bin.tmp"), path("last.bin"));
                       unsynced_.insert("last.bin");
                     },
                     true});
    return steps;
  }
  std::vector<Step> save_numbered(int k) {
    std::vector<Step> steps;
    half_and_half(steps, 20'000, "step_" + std::to_string(k) + ".bin",
                  "weights of save " + std::to_string(k));
    steps.back().whole = true;
    if (k > 2) gone(steps, "step_" + std::to_string(k - 2) + ".bin");
    return steps;
  }
  std::vector<Step> save_set(int k) {
    std::vector<Step> steps;
    const std::string number = std::to_string(k);
    half_and_half(steps, 20'000, "model_" + number + ".pt", zip("model " + number));
    at_once(steps, 300, "meta_" + number + ".json", "{\"step\": " + number + "}");
    half_and_half(steps, 300, "optim_" + number + "_rank0.pt", zip("optim " + number));
    steps.back().whole = true;
    at_once(steps, 5, "latest.txt", "model_" + number + ".pt");
    steps.back().whole = true;
    return steps;
  }
  // The step lies beside the weights, in a file that no pattern names and that names none.
  std::vector<Step> save_and_step(int k) {
    std::vector<Step> steps;
    const std::string number = std::to_string(k);
    half_and_half(steps, 20'000, "params.pkl", "weights of save " + number);
    half_and_half(steps, 300, "state.pkl", "optimizer of save " + number);
    at_once(steps, 300, "step.txt", number + "00");
    steps.back().whole = true;
    return steps;
  }
  // The first one comes behind its weights: alone it would be as a configuration is.
  std::vector<Step> step_and_save(int k) {
    std::vector<Step> steps;
    const std::string number = std::to_string(k);
    const std::string progress = R"({"epoch": )" + number + R"(, "lr": 0.1})";
    if (k > 1) at_once(steps, 20'000, "progress.json", progress);
    half_and_half(steps, k > 1 ? 300 : 20'000, "params.pkl", "weights of save " + number);
    if (k == 1) at_once(steps, 300, "progress.json", progress);
    steps.back().whole = true;
    return steps;
  }
  std::vector<Step> save_folder(int k) {
    std::vector<Step> steps;
    const std::string folder = "checkpoint-" + std::to_string(k);
    half_and_half(steps, 20'000, folder + "/model/weights.safetensors", safetensors(folder));
    half_and_half(steps, 200, folder + "/optimizer.bin", "optimizer of " + folder);
    half_and_half(steps, 400, folder + "/adapter.bin", "added later to " + folder);
    steps.back().whole = true;
    steps.push_back({5,
                     [=, this] {
                       fs::remove(path("LATEST"));
                       fs::create_symlink(folder, path("LATEST"));
                     },
                     true});
    if (k > 2) gone(steps, "checkpoint-" + std::to_string(k - 2));
    return steps;
  }

  State state() const {
    State found;
    for (const auto& each : fs::recursive_directory_iterator(path(""))) {
      const std::string name = each.path().lexically_relative(path("")).string();
      if (each.is_symlink())
        found[name] = "-> " + fs::read_symlink(each.path()).string();
      else if (each.is_regular_file() && !name.ends_with(".tmp"))
        found[name] = read(name);
    }
    return found;
  }

  void begin(const Where& where) {
    where_ = where;
    keeper_.emplace(Keeper::open(where).value());
    guard_.emplace(
        *keeper_, [this] { return Deaths{.some = std::exchange(died_, false)}; },
        [this](const Saying& saying) {
          if (!saying.path.empty() && !ending_) durable_ = reached_;
          said_ += "\n  said: " + saying.finished.name + saying.words;
        },
        [this] { return now_; });
    ASSERT_TRUE(guard_->begin(false));
  }
  void rest(int pause, Watchfulness how) {
    const auto end = now_ + milliseconds(pause);
    for (const int look = how == Watchfulness::Always ? 50 : 7'000;
         now_ + milliseconds(look) <= end; now_ += milliseconds(look)) {
      guard_->look();
      for (const Row* row : keeper_->record().rows_of(keeper_->record().newest_number()))
        if (is_as_recorded(*row)) unsynced_.erase(row->name);
    }
    now_ = end;
  }
  bool is_as_recorded(const Row& row) const {
    struct stat status {};
    return ::lstat(path(row.name).c_str(), &status) == 0 && is_as(row, found(row.name, status));
  }
  void lose(Loss how) {
    ending_ = true;
    open_.clear();
    if (how == Loss::Killed) {
      died_ = true;
      guard_->end(End::Killed, true);
    } else {
      for (const std::string& name : unsynced_) {
        if (!fs::is_regular_file(path(name)) || how == Loss::LostAsItIs) continue;
        const auto bytes = fs::file_size(path(name));
        fs::resize_file(path(name), how == Loss::LostHalf ? bytes / 2 : 0);
        if (how == Loss::LostZeros) fs::resize_file(path(name), bytes);
      }
    }
    guard_.reset();
    keeper_.reset();
    ASSERT_TRUE(Keeper::open(where_).value().settle(false));
  }

  // One life that ends after so many steps. Returns what was wrong, or "".
  std::string live(const Where& where, const std::vector<Step>& steps, std::size_t count, Loss loss,
                   Watchfulness how) {
    for (const auto& each : fs::directory_iterator(mount_)) fs::remove_all(each);
    fs::create_directories(path(""));
    fs::create_directories(mount_ / ".spotter");
    unsynced_.clear();
    durable_ = reached_ = 0;
    said_.clear();
    ending_ = false;
    begin(where);
    std::vector<std::pair<std::size_t, State>> whole = {{0, {}}};
    for (std::size_t i = 0; i < count; ++i) {
      rest(steps[i].pause, how);
      if (steps[i].pause >= 20'000) reached_ = whole.size() - 1;
      steps[i].act();
      if (steps[i].whole) whole.emplace_back(whole.size(), state());
      reached_ = whole.size() - 1;
    }
    rest(60, how);
    lose(loss);
    const State found = state();
    const auto at = std::ranges::find(whole.rbegin(), whole.rend(), found,
                                      [](const auto& one) { return one.second; });
    if (at == whole.rend()) return "a mixture";
    // A guard that comes too late says so of an older one than was reached by then.
    if (how == Watchfulness::Always && at->first < durable_) return "older than what was durable";
    return "";
  }
  void search(const Where& where, std::vector<Step> (Search::*save)(int),
              std::initializer_list<Watchfulness> watched = {Watchfulness::Always,
                                                             Watchfulness::Slow}) {
    std::vector<Step> steps;
    for (int k = 1; k <= 5; ++k)
      for (Step& step : (this->*save)(k)) steps.push_back(std::move(step));
    int wrong = 0;
    std::size_t lives = 0;
    const std::size_t every = elsewhere() != nullptr ? 7 : 1;
    for (const Watchfulness how : watched)
      for (const Loss loss : losses)
        for (std::size_t count = 0; count <= steps.size() && wrong < 5; ++count) {
          if (lives++ % every != 0) continue;
          const std::string what = live(where, steps, count, loss, how);
          if (what.empty()) continue;
          ++wrong;
          std::string text = said_;
          for (const auto& [name, content] : state())
            text += "\n  " + name + ": " + content.substr(0, 40);
          ADD_FAILURE() << what << " after step " << count << " of " << steps.size() << ", loss "
                        << static_cast<int>(loss) << ", guard " << static_cast<int>(how) << text;
        }
  }
  Where files(const std::string& patterns) const { return {mount_, "ckpt", patterns}; }

  std::map<std::string, Descriptor> open_;
  std::set<std::string> unsynced_;
  Moments::Time now_{std::chrono::hours(1)};
  const std::time_t began_ = std::time(nullptr);
  int clock_ = 0;
  bool died_ = false;
  bool ending_ = false;  // what is said then may be of an older state
  std::string said_;
  std::size_t reached_ = 0;  // the newest whole state
  std::size_t durable_ = 0;  // the newest that the guard called durable
  Where where_;
  std::optional<Keeper> keeper_;
  std::optional<Guard> guard_;
};

TEST_F(Search, InPlace) { search(files("*.bin"), &Search::save_in_place); }
TEST_F(Search, ByRename) { search(files("*.bin"), &Search::save_by_rename); }
TEST_F(Search, Numbered) { search(files("*.bin"), &Search::save_numbered); }
TEST_F(Search, Sets) { search(files("*.pt *.json"), &Search::save_set); }
TEST_F(Search, AStepBeside) { search(files("*.pkl"), &Search::save_and_step); }
TEST_F(Search, AStepBefore) { search(files("*.pkl"), &Search::step_and_save); }
TEST_F(Search, Folders) {
  search({mount_, "ckpt", "", false, "checkpoint-*"}, &Search::save_folder);
}
TEST_F(Search, AllThatIsThere) {
  search(files(""), &Search::save_set);
  // A guard that comes too late leaves a link out that names what it could not capture: then an
  // older one is there, beside folders that are whole.
  search(files(""), &Search::save_folder, {Watchfulness::Always});
}

}  // namespace
}  // namespace spotter::guard

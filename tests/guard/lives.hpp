// Lives of a trainer with a guard beside it, on a clock of their own: real files, real inotify.
#pragma once

#include "agent/guard/guard.hpp"
#include "tests/guard/units.hpp"

namespace spotter::guard {

class Lives : public Folder {
 protected:
  // One life of a trainer and its guard.
  class Life {
   public:
    // `adds`: whoever has a file open for writing can only add to it.
    explicit Life(Where where, bool adds = false)
        : keeper_(Keeper::open(std::move(where)).value()),
          guard_(
              keeper_, [this] { return Deaths{.some = std::exchange(died, false)}; },
              [this](const Saying& saying) { said.push_back(saying); }, [this] { return now_; },
              SaidSet(), [] { return false; }, [adds](const struct stat&) { return adds; }) {
      EXPECT_TRUE(guard_.begin(false));
    }
    // Time goes on, and the guard looks ten times a second.
    void rest(int milliseconds) {
      for (const auto end = now_ + std::chrono::milliseconds(milliseconds); now_ < end;
           now_ += std::chrono::milliseconds(100))
        guard_.look();
    }
    // Until the guard has recorded so many checkpoints more.
    void wait_for(std::size_t count) {
      const std::size_t before = finished().size();
      for (int i = 0; i < 600 && finished().size() < before + count; ++i) rest(100);
      EXPECT_EQ(finished().size(), before + count);
    }
    void look() { guard_.look(); }
    bool end(End how, bool progressed = true) { return guard_.end(how, progressed); }
    std::vector<std::string> finished() const {
      std::vector<std::string> names;
      for (const Saying& saying : said)
        if (!saying.path.empty()) names.push_back(saying.finished.name);
      return names;
    }
    bool died = false;
    std::vector<Saying> said;

   private:
    Moments::Time now_{std::chrono::hours(1)};
    Keeper keeper_;
    Guard guard_;
  };

  Where files(const std::string& patterns) const { return {mount_, "ckpt", patterns}; }
  Where folders() const { return {mount_, "ckpt", "", false, "checkpoint-* iter_* global_step*"}; }
  // ckpt.2.pt <- ckpt.1.pt <- ckpt.pt, which is to be written then.
  void rotate() const {
    for (const auto& [from, to] : {std::pair{"ckpt.1.pt", "ckpt.2.pt"}, {"ckpt.pt", "ckpt.1.pt"}})
      if (exists(from)) fs::rename(path(from), path(to));
  }
  std::set<std::string> there() const {
    std::set<std::string> names;
    for (const auto& each : fs::directory_iterator(path("")))
      names.insert(each.path().filename().string());
    return names;
  }
  using Names = std::set<std::string>;
  // Nothing whole is only there: how many files are away.
  Settled settle(const Where& where) const {
    auto settled = Keeper::open(where).value().settle(false);
    EXPECT_TRUE(settled) << settled.error().message;
    return settled.value_or(Settled{});
  }
};

}  // namespace spotter::guard

#include "tests/gang/simulator/story.hpp"

#include <algorithm>
#include <chrono>

namespace spotter::gang {
namespace {

using Phase = Record::Phase;

std::string names(const std::vector<std::string>& ids, std::size_t from = 0) {
  std::string all;
  for (std::size_t i = from; i < ids.size(); ++i) all += (i > from ? ", " : "") + ids[i];
  return all;
}

class Story {
 public:
  Story(const Record& before, const Record& after, const std::string& by)
      : before_(before), after_(after), by_(by) {}

  std::vector<std::string> lines() {
    for (const Member& each : before_.members)
      if (after_.find(each.id) == nullptr)
        say(each.id == by_ ? each.id + " is a member no more"
                           : each.id + " is taken for dead by " + by_);
    for (const Member& each : after_.members) {
      const Member* const was = before_.find(each.id);
      if (was == nullptr) say(each.id + " is a member");
      member(was != nullptr ? *was : Member{.id = each.id}, each);
    }
    if (after_.newest > before_.newest)
      say("the newest checkpoint is of step " + std::to_string(after_.newest));
    counts();
    round();
    return std::move(lines_);
  }

 private:
  void say(std::string words) { lines_.push_back(std::move(words)); }

  void member(const Member& was, const Member& is) {
    if (is.faults > was.faults)
      say(is.id + " was the reason for a round's end, time " + std::to_string(is.faults));
    if (is.left_out != was.left_out)
      say(is.id + (is.left_out ? " is left out: the others go on without it" : " is taken back"));
    if (is.given_back && !was.given_back) say(is.id + " is to be given back");
    if (is.leaves_in && is.leaves_in != was.leaves_in) {
      const auto left = std::chrono::duration_cast<std::chrono::seconds>(*is.leaves_in).count();
      say(is.id + " leaves" + (left > 0 ? " in " + std::to_string(left) + " s" : " now"));
    }
    if (is.ready && !was.ready) say(is.id + " is ready" + why(is));
  }

  static std::string why(const Member& is) {
    if (is.apart && is.missed.empty()) return ": in the last round its workers never began";
    if (is.apart) return ": in the last round it did not reach " + is.missed;
    return is.end == End::Other ? "" : ": " + to_words(is.end);
  }

  void counts() {
    const auto one = [&](std::uint32_t was, std::uint32_t is, const char* what) {
      if (is > was) say(what + std::to_string(is));
    };
    one(before_.failures, after_.failures, "rounds in succession that failed: ");
    one(before_.apart, after_.apart, "rounds in succession in which not all reached one another: ");
    one(before_.torn, after_.torn, "rounds since the newest checkpoint that fell to pieces: ");
  }

  void round() {
    if (after_.phase == Phase::Done && before_.phase != Phase::Done) say("the gang is done");
    if (after_.phase == Phase::Failed && before_.phase != Phase::Failed) say("the gang has failed");
    if (after_.phase == Phase::Forming && before_.phase == Phase::Failed)
      say("the gang starts over");
    // Written at once with the beginning of the next one, where all are ready by then.
    if (before_.phase == Phase::Training &&
        (after_.phase == Phase::Forming || after_.round != before_.round))
      say("round " + std::to_string(before_.round) + " is over");
    const bool begins = after_.phase == Phase::Training &&
                        (before_.phase != Phase::Training || before_.round != after_.round);
    if (!begins || after_.ranks.empty()) return;
    std::string words = "round " + std::to_string(after_.round) + " begins: ";
    words += after_.ranks.front() + (after_.ranks.size() > 1 ? " leads " : " alone");
    say(words + names(after_.ranks, 1));
  }

  const Record &before_, &after_;
  const std::string& by_;
  std::vector<std::string> lines_;
};

}  // namespace

std::string to_words(End end) {
  switch (end) {
    case End::Ended:
      return "its workers were ended";
    case End::Torn:
      return "its workers lost those of another machine";
    case End::Failed:
      return "its workers failed";
    case End::Hung:
      return "a worker of it hung";
    case End::Other:
      break;
  }
  return "its workers ended";
}

std::vector<std::string> changes(const std::optional<Record>& before, const Record& after,
                                 const std::string& by) {
  return Story(before.value_or(Record()), after, by).lines();
}

}  // namespace spotter::gang

#include "tests/simulate/shrink.hpp"

#include <algorithm>
#include <cctype>
#include <sstream>

namespace spotter::simulate {
namespace {

constexpr std::uint64_t kMostRuns = 3'000;
using Numbers = std::vector<std::uint64_t>;

// The promise itself, without the names and numbers of this run.
std::string promise(const std::string& broken) {
  std::istringstream words(broken);
  std::string text;
  for (std::string word; words >> word;) {
    if (std::none_of(word.begin(), word.end(), [](unsigned char c) { return std::isdigit(c); })) {
      text += word + " ";
    }
  }
  return text;
}

class Shrinker {
 public:
  Shrinker(std::uint64_t seed, const Choice& choice) : seed_(seed), all_(choice) {
    Simulation simulation(seed, false, choice);
    promise_ = promise(simulation.run().broken);
    keep_allowed(simulation.fired(), choice);
    result_.faults = faults_.size();
  }

  // Ever smaller chunks are left out, one after the other; single ones until none can go.
  Shrunk run() {
    std::size_t size = std::max<std::size_t>(1, faults_.size() / 2);
    bool again = true;
    while (again && result_.runs < kMostRuns) {
      const bool fewer = leave_out(size);
      again = size > 1 || fewer;
      size = std::max<std::size_t>(1, size / 2);
    }
    result_.choice = of(faults_);
    return result_;
  }

 private:
  void keep_allowed(const Numbers& fired, const Choice& choice) {
    faults_.clear();
    for (const std::uint64_t number : fired) {
      if (choice.allows(number)) faults_.push_back(number);
    }
  }

  Choice of(const Numbers& faults) const {
    Choice choice = all_;
    choice.only = true;
    choice.numbers = {faults.begin(), faults.end()};
    return choice;
  }

  bool leave_out(std::size_t size) {
    bool fewer = false;
    for (std::size_t first = 0; first < faults_.size() && result_.runs < kMostRuns;) {
      if (fails_without(first, size)) {
        fewer = true;
      } else {
        first += size;
      }
    }
    return fewer;
  }

  bool fails_without(std::size_t first, std::size_t size) {
    Choice choice = of(faults_);
    for (std::size_t i = first; i < std::min(first + size, faults_.size()); ++i) {
      choice.numbers.erase(faults_[i]);
    }
    Simulation simulation(seed_, false, choice);
    ++result_.runs;
    if (promise(simulation.run().broken) != promise_) return false;
    keep_allowed(simulation.fired(), choice);  // fewer still, when some never came
    return true;
  }

  std::uint64_t seed_;
  Choice all_;
  std::string promise_;
  Numbers faults_;
  Shrunk result_;
};

}  // namespace

Shrunk shrink(std::uint64_t seed, const Choice& choice) { return Shrinker(seed, choice).run(); }

}  // namespace spotter::simulate

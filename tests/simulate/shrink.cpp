#include "tests/simulate/shrink.hpp"

#include <algorithm>
#include <cctype>
#include <sstream>

namespace spotter::simulate {
namespace {

constexpr std::uint64_t kMostLives = 3'000;
using Numbers = std::vector<std::uint64_t>;

// The promise itself, without the names and numbers of this life.
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
  Shrinker(std::uint64_t seed, const Choice& choice) : seed_(seed) {
    Simulation simulation(seed, false, choice);
    promise_ = promise(simulation.run().broken);
    keep_allowed(simulation.fired(), choice);
    result_.faults = faults_.size();
  }

  Shrunk run() {
    std::size_t chunks = 2;
    while (!faults_.empty() && result_.lives < kMostLives) {
      if (remove_one_of(chunks)) {
        chunks = std::max<std::size_t>(2, chunks - 1);
      } else if (chunks >= faults_.size()) {
        break;
      } else {
        chunks = std::min(faults_.size(), 2 * chunks);
      }
    }
    result_.choice = {true, {faults_.begin(), faults_.end()}};
    return result_;
  }

 private:
  void keep_allowed(const Numbers& fired, const Choice& choice) {
    faults_.clear();
    for (const std::uint64_t number : fired) {
      if (choice.allows(number)) faults_.push_back(number);
    }
  }

  bool remove_one_of(std::size_t chunks) {
    const std::size_t size = (faults_.size() + chunks - 1) / chunks;
    for (std::size_t first = 0; first < faults_.size(); first += size) {
      Choice choice{true, {faults_.begin(), faults_.end()}};
      for (std::size_t i = first; i < std::min(first + size, faults_.size()); ++i) {
        choice.numbers.erase(faults_[i]);
      }
      Simulation simulation(seed_, false, choice);
      ++result_.lives;
      if (promise(simulation.run().broken) != promise_) continue;
      keep_allowed(simulation.fired(), choice);  // fewer still, when some never came
      return true;
    }
    return false;
  }

  std::uint64_t seed_;
  std::string promise_;
  Numbers faults_;
  Shrunk result_;
};

}  // namespace

Shrunk shrink(std::uint64_t seed, const Choice& choice) { return Shrinker(seed, choice).run(); }

}  // namespace spotter::simulate

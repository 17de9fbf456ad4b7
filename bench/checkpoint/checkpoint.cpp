// The library's part of bench/checkpoint, one phase a run, so that the caller can put dd between
// them: bench_checkpoint DIRECTORY BYTES save|restore. Prints one JSON object of seconds.
#include <chrono>
#include <cstring>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "trainer/library/bulk.hpp"
#include "trainer/library/checkpoint.hpp"
#include "trainer/library/saver.hpp"

namespace {

namespace cp = spotter::checkpoint;

using Clock = std::chrono::steady_clock;

double since(Clock::time_point begun) {
  return std::chrono::duration<double>(Clock::now() - begun).count();
}

constexpr int kRounds = 5;
constexpr std::size_t kTensors = 64;  // of one size; a network of some hundred MB has as many

void change(char* state, std::size_t bytes, int round) {
  // Every page of it, as an optimizer does: nothing may be linked.
  for (std::size_t at = 0; at < bytes; at += 64) state[at] = static_cast<char>(state[at] + round);
}

int save(const std::string& directory, std::size_t bytes) {
  cp::Buffer state;
  cp::Buffer target;
  if (!state.reserve(bytes) || !target.reserve(bytes)) return 1;
  state.touch();
  target.touch();
  std::vector<cp::Source> sources = {{"model", {}}};
  const std::size_t one = bytes / kTensors;
  for (std::size_t i = 0; i < kTensors; ++i) {
    sources[0].pieces.emplace_back(state.data() + i * one, one);
  }
  nlohmann::json figures = {{"memcpy", nlohmann::json::array()},
                            {"stall", nlohmann::json::array()},
                            {"write", nlohmann::json::array()}};
  cp::Saver::Settings settings{{{directory, {.last = 1}}}, {}};
  settings.durable = [&](const cp::Durable& durable) {
    figures["write"].push_back(std::chrono::duration<double>(durable.took).count());
  };
  auto saver = cp::Saver::open(std::move(settings));
  if (!saver) {
    std::cerr << saver.error().message << "\n";
    return 1;
  }
  for (int round = 0; round <= kRounds; ++round) {
    change(state.data(), bytes, round + 1);
    auto begun = Clock::now();
    std::memcpy(target.data(), state.data(), bytes);
    const double copied = since(begun);
    begun = Clock::now();
    const auto saved = (*saver)->save(static_cast<std::uint64_t>(round), sources, {}, {});
    const double stalled = since(begun);
    const auto flushed = (*saver)->flush();
    if (!saved || !flushed) {
      std::cerr << (saved ? flushed : saved).error().message << "\n";
      return 1;
    }
    if (round == 0) {  // the kernel clears the memory of the copy: reported apart
      figures["first_stall"] = stalled;
      continue;
    }
    figures["memcpy"].push_back(copied);
    figures["stall"].push_back(stalled);
  }
  figures["write"].erase(0);
  std::cout << figures.dump() << std::endl;
  return 0;
}

int restore(const std::string& directory) {
  const auto begun = Clock::now();
  const std::vector<std::filesystem::path> places = {directory};
  const auto restored = cp::restore(places);
  if (!restored || !restored->newest) return 1;
  std::cout << nlohmann::json({{"restore", since(begun)}}).dump() << std::endl;
  return 0;
}

}  // namespace

int main(int count, char** arguments) {
  const std::vector<std::string> words(arguments + 1, arguments + count);
  if (words.size() == 3 && words[2] == "save") return save(words[0], std::stoull(words[1]));
  if (words.size() == 3 && words[2] == "restore") return restore(words[0]);
  std::cerr << "usage: bench_checkpoint DIRECTORY BYTES save|restore\n";
  return 2;
}

#include "agent/gang/stall.hpp"

#include <algorithm>
#include <array>

namespace spotter::gang {
namespace {

using Turn = StallWatch::Turn;

// To write down its stack.
constexpr Duration patience_with_stacks{3'000};
constexpr std::array<std::string_view, 4> of_those_that_wait = {
    "/torch/distributed/", "/torch/autograd/", "/torch/_tensor.py", "/spotter/_ranks.py"};

std::vector<std::int64_t> steps_of(const std::vector<RankSeen>& ranks) {
  std::vector<std::int64_t> steps;
  for (const RankSeen& each : ranks) steps.push_back(each.step);
  return steps;
}

// `File "/home/me/train.py", line 30 in load`, of the last of several dumps: each is added to the
// file.
std::string_view first_frame(std::string_view stack) {
  if (const auto last = stack.rfind("most recent call first"); last != stack.npos)
    stack.remove_prefix(last);
  const auto begin = stack.find("File \"");
  if (begin == stack.npos) return {};
  return stack.substr(begin, std::min(stack.find('\n', begin), stack.size()) - begin);
}

}  // namespace

bool only_waits(std::string_view stack) {
  const std::string_view frame = first_frame(stack);
  return std::ranges::any_of(of_those_that_wait,
                             [&](std::string_view part) { return frame.find(part) != frame.npos; });
}

std::string innermost(std::string_view stack) {
  const std::string_view frame = first_frame(stack);
  const auto quote = frame.find('"', 6), line = frame.find(", line "),
             in = frame.find(" in ", line);
  if (frame.empty() || quote == frame.npos || line == frame.npos || in == frame.npos) return "";
  const std::string_view path = frame.substr(6, quote - 6);
  return std::string(path.substr(path.rfind('/') + 1)) + ":" +
         std::string(frame.substr(line + 7, in - line - 7)) + std::string(frame.substr(in));
}

Turn StallWatch::look(Time now, const std::vector<RankSeen>& ranks) {
  const auto steps = steps_of(ranks);
  const bool began = std::ranges::any_of(steps, [](std::int64_t step) { return step >= 0; });
  if (steps != seen_ || !began) {
    seen_ = steps;
    since_ = now;
    asked_.reset();
    return Turn::Nothing;
  }
  if (now - since_ < limit_) return Turn::Nothing;
  if (!asked_) {
    asked_ = now;
    return Turn::Ask;
  }
  if (now - *asked_ < patience_with_stacks) return Turn::Nothing;
  std::string hang, say_nothing;
  for (const RankSeen& each : ranks) {
    const std::string rank = "local rank " + std::to_string(each.local);
    std::string& of = each.stack.empty() ? say_nothing : hang;
    if (each.stack.empty() || !only_waits(each.stack))
      of += (of.empty() ? "" : ", ") + rank +
            (each.stack.empty() ? "" : " in " + innermost(each.stack));
  }
  const bool late = now - since_ >= limit_ + limit_ / 4;
  if (hang.empty() && !late) return Turn::Nothing;
  words_ = !hang.empty()          ? "hangs: " + hang
           : !say_nothing.empty() ? "hangs, or waits, and does not say where: " + say_nothing
                                  : "waits for a rank elsewhere that hangs";
  end_ = !hang.empty() ? End::Hung : say_nothing.empty() ? End::Torn : End::Other;
  rest();
  return Turn::End;
}

}  // namespace spotter::gang

#include "agent/guard/moments.hpp"

#include <fnmatch.h>

#include <algorithm>
#include <sstream>
#include <utility>

namespace spotter::guard {
namespace {

using Pause = Moments::Pause;

constexpr std::size_t remembered = 3;  // sets; a name that one of them lacks is not usual
// Nothing is known yet of what belongs together; other ranks, and callbacks, add theirs.
constexpr Pause unknown_yet(1000);
// The set lacks what sets usually have, and the script must have gone on to something else.
constexpr Pause incomplete(30'000);

bool is_digit(char each) { return each >= '0' && each <= '9'; }

constexpr int sets_of_a_log = 2;  // during which it is open
// A file that its folder's set began with may be written twice in one save (config.json), after a
// pause, too; but not three times: what it lacked since the first one (best.pt) is not usual.
constexpr int begins_by_then = 2;

template <class States>
Shapes shapes_of(const States& names) {
  Shapes shapes;
  for (const auto& [name, state] : names)
    if (state.closed) ++shapes[shape_of(name)];
  return shapes;
}

// The shapes that each of the last sets had. Empty: nothing is known.
Shapes needed_of(const std::deque<Shapes>& usual) {
  Shapes needed = usual.empty() ? Shapes() : usual.front();
  for (const Shapes& each : usual)
    for (auto& [shape, count] : needed) {
      const auto at = each.find(shape);
      count = std::min(count, at == each.end() ? 0 : at->second);
    }
  std::erase_if(needed, [](const auto& one) { return one.second == 0; });
  return needed;
}

bool has_some(const Shapes& needed, const Shapes& there) {
  return std::ranges::any_of(there, [&](const auto& one) { return needed.contains(one.first); });
}

// A set that has none of them is another kind of set.
bool lacks(const Shapes& needed, const Shapes& there) {
  return has_some(needed, there) && std::ranges::any_of(needed, [&there](const auto& one) {
           const auto at = there.find(one.first);
           return at == there.end() || at->second < one.second;
         });
}

// The unit that is numbered as a whole: a folder, or the file.
std::string first_component(const std::string& name) { return name.substr(0, name.find('/')); }

}  // namespace

std::string shape_of(const std::string& name) {
  std::string shape;
  for (const char each : name) {
    if (!is_digit(each))
      shape += each;
    else if (!shape.ends_with('#'))
      shape += '#';
  }
  return shape;
}

std::vector<std::string> numbers_in(const std::string& name) {
  std::vector<std::string> numbers;
  for (std::size_t at = 0; at < name.size(); ++at) {
    if (!is_digit(name[at])) continue;
    if (at == 0 || !is_digit(name[at - 1])) numbers.emplace_back();
    numbers.back() += name[at];
  }
  return numbers;
}

bool lacks_usual(const std::deque<Shapes>& usual, const std::vector<std::string>& names) {
  Shapes there;
  for (const std::string& name : names) ++there[shape_of(name)];
  return lacks(needed_of(usual), there);
}

SaidSet::SaidSet(const std::string& patterns) {
  std::istringstream words(patterns);
  for (std::string word; words >> word;) patterns_.push_back(word);
}

std::optional<SaidSet::Match> SaidSet::match(const std::string& name) const {
  const auto fits = [this](const std::string& text) -> std::optional<std::size_t> {
    for (std::size_t i = 0; i < patterns_.size(); ++i)
      if (::fnmatch(patterns_[i].c_str(), text.c_str(), FNM_PATHNAME | FNM_PERIOD) == 0) return i;
    return std::nullopt;
  };
  if (const auto one = fits(name)) return Match{*one, {}};
  constexpr std::string_view step = "{step}";
  // `step_10/model_10_rank10.pt`: each number by itself, then all that are the same.
  for (const std::string& number : numbers_in(name)) {
    std::string all;
    for (std::size_t at = 0; at < name.size();) {
      std::size_t end = at;
      while (end < name.size() && is_digit(name[end])) ++end;
      const bool same = name.substr(at, end - at) == number;
      if (same)
        if (const auto one = fits(name.substr(0, at) + std::string(step) + name.substr(end)))
          return Match{*one, number};
      end = std::max(end, at + 1);
      all += same ? std::string(step) : name.substr(at, end - at);
      at = end;
    }
    if (const auto one = fits(all)) return Match{*one, number};
  }
  return std::nullopt;
}

bool SaidSet::is_countable() const {
  return std::ranges::all_of(patterns_, [](const std::string& pattern) {
    return pattern.find_first_of("*?[") == std::string::npos;
  });
}

void Moments::wrote(const std::string& name, bool closed, Time now) {
  if (const auto open = open_.find(name); open != open_.end()) {
    if (!closed) return;
    open_.erase(open);
  }
  if (captured_ && !new_) {
    burst_.clear();
    rest_ = std::chrono::duration_cast<Pause>(now - last_);
    in_burst_ = true;
  }
  const Pause pause = std::chrono::duration_cast<Pause>(now - last_);
  const auto known = current_.find(name);
  const bool again = known != current_.end() && known->second.closed;
  if (known == current_.end() && finished_.contains(name)) revisit(name, now);
  // A log that the set seemed to begin with is open all the time.
  if (again && !is_closed(first_) && now - known->second.at >= unknown_yet) first_ = name;
  if (!current_.empty() && (known == current_.end() || again)) {
    if (again && in_place_.insert(shape_of(first_component(name))).second) usual_.clear();
    if (again && name == first_ && pause >= unknown_yet) ++first_again_;
    if (begins(name, in_burst_ ? rest_ : pause))
      begin_set();
    else if (!in_burst_)
      within_ = std::max(within_, pause);
    else if (burst_.empty())
      rested_ = std::max(rested_, rest_);
  }
  if (current_.empty()) first_ = name;
  current_[name] = {closed, now};
  if (in_burst_) burst_.insert(name);
  if (due_) in_flux_.insert(name);
  // It was of the set that is not captured yet: that is written over, and the two are one.
  if (due_ && before_.contains(name)) {
    for (const auto& [earlier, its] : before_)
      if (!open_.contains(earlier)) current_.try_emplace(earlier, State{its, now});
    before_.clear();
    in_flux_.clear();
    due_ = false;
  }
  last_ = now;
  new_ = true;
}

// Files that have only numbers apart, each once a save (`rank_0.pt`, `rank_1.pt`), seem to be sets
// of their own until the first of them is written over: a save begins with it, to which the others
// belong.
void Moments::revisit(const std::string& name, Time now) {
  const std::string shape = shape_of(first_component(name));
  const auto is_like = [&](const std::string& other) {
    return other != name && shape_of(first_component(other)) == shape;
  };
  if (in_place_.contains(shape) ||
      (std::ranges::none_of(finished_, is_like) &&
       std::ranges::none_of(current_, is_like, [](const auto& one) { return one.first; })))
    return;
  in_place_.insert(shape);
  usual_.clear();
  if (std::exchange(revisits_, true)) return;
  first_ = name;
  Time first = now;
  for (const auto& [other, state] : current_)
    if (state.at < first && finished_.contains(other)) first_ = other, first = state.at;
}

void Moments::forget(const std::string& name) {
  for (Shapes& shapes : usual_) shapes.erase(shape_of(name));
  burst_.erase(name);
  before_.erase(name);
  in_flux_.erase(name);
  open_.erase(name);
  if (current_.erase(name) == 0) return;
  if (first_ == name) first_ = current_.empty() ? std::string() : current_.begin()->first;
  new_ = new_ && !current_.empty();
}

void Moments::removed(const std::string& name, Time now) {
  current_.erase(name);
  burst_.erase(name);
  before_.erase(name);
  open_.erase(name);
  last_ = now;
  new_ = true;
}

// Does writing this name begin the next set? The files since the last rest may belong to it, too:
// that is seen by a later name.
bool Moments::begins(const std::string& name, Pause pause) const {
  if (said_.size() != 0) return begins_as_said(name);
  if (current_.contains(name))  // it was finished, and is written again
    return in_burst_ ? !burst_.contains(name)
                     : name == first_ &&
                           (name.find('/') == std::string::npos || first_again_ >= begins_by_then);
  const std::string unit = first_component(name);
  const std::string shape = shape_of(unit);
  std::set<std::string> others;  // numbers of the set's units
  bool same_shape = false, same_folder = false, next_there = false;
  for (const auto& [other, state] : current_) {
    const std::string its = first_component(other);
    if (in_burst_ && burst_.contains(other)) continue;
    if (its == unit) {
      // A folder of many checkpoints, which lie deeper.
      same_folder = true;
      next_there = next_there || (in_burst_ && shape_of(other) == shape_of(name));
      continue;
    }
    for (std::string& number : numbers_in(its)) others.insert(std::move(number));
    // `rank1.pt` beside `rank0.pt`, both written over in place, is no other save.
    same_shape = same_shape || (shape_of(its) == shape && !in_place_.contains(shape));
  }
  if (same_folder) return next_there;
  if (!same_shape) return in_burst_ && burst_.empty() && !needed().empty() && is_complete();
  // `optim_10_rank1` after `optim_10_rank0` is of the same set, `epoch=2-step=20` after
  // `epoch=1-step=10` is not: they share no number.
  const bool shares = std::ranges::any_of(
      numbers_in(unit), [&others](const std::string& number) { return others.contains(number); });
  return !shares || pause >= unknown_yet;
}

bool Moments::begins_as_said(const std::string& name) const {
  const auto mine = said_.match(name);
  if (!mine) return false;
  if (current_.contains(name)) return has_all_said();
  return std::ranges::any_of(current_, [&](const auto& one) {
    const auto other = said_.match(one.first);
    const bool both = other && !other->step.empty() && !mine->step.empty();
    return both && other->step != mine->step;
  });
}

// True also of what has no name that was said.
bool Moments::has_all_said() const {
  std::set<std::size_t> there;
  for (const auto& [name, state] : current_)
    if (const auto one = said_.match(name); one && state.closed) there.insert(one->pattern);
  return there.empty() || there.size() == said_.size();
}

void Moments::begin_set() {
  std::map<std::string, State> next;
  if (in_burst_)
    for (const std::string& name : burst_)
      if (auto state = current_.extract(name)) next.insert(std::move(state));
  // A set without a usual name (a best model, now and then) says nothing about what is usual.
  if (!revisits_ && (needed().empty() || has_some(needed(), shapes_of(current_))))
    usual_.push_back(shapes_of(current_));
  lone_ = usual_.size() == 1;
  if (usual_.size() > remembered) usual_.pop_front();
  due_ = due_ || (new_ && !in_burst_ && has_all_said());
  in_flux_.clear();
  for (auto& [name, sets] : open_) ++sets;
  for (const auto& [name, state] : current_) {
    if (!state.closed) open_.emplace(name, 1);
    if (state.closed) finished_.insert(name);
    if (due_) before_[name] = state.closed;
  }
  current_ = std::move(next);
  if (!current_.empty()) first_ = current_.begin()->first;
  if (due_)
    for (const auto& [name, state] : current_) in_flux_.insert(name);
  in_burst_ = false;
  captured_ = revisits_ = false;
  first_again_ = 0;
}

std::deque<Shapes> Moments::learned() const {
  if (!usual_.empty() || !captured_) return usual_;
  return {shapes_of(current_)};
}

bool Moments::is_sure() const {
  return needed().empty() && said_.size() == 0 ? !new_ : is_complete();
}

Shapes Moments::needed() const { return needed_of(usual_); }

bool Moments::is_complete() const {
  return has_all_said() && !lacks(needed(), shapes_of(current_));
}

bool Moments::is_closed(const std::string& name) const {
  if (const auto at = current_.find(name); at != current_.end()) return at->second.closed;
  const auto at = before_.find(name);
  return at != before_.end() && at->second;
}

bool Moments::grows(const std::string& name) const {
  const auto at = open_.find(name);
  return at != open_.end() && at->second >= sets_of_a_log;
}

std::vector<std::string> Moments::open_for(Pause pause, Time now) const {
  std::vector<std::string> names;
  for (const auto& [name, state] : current_)
    if (!state.closed && now - state.at >= pause) names.push_back(name);
  return names;
}

void Moments::close(const std::string& name) {
  if (const auto at = current_.find(name); at != current_.end()) at->second.closed = true;
}

std::optional<Pause> Moments::wait(Time now) const {
  if (due_) return Pause(0);
  if (!new_) return std::nullopt;
  const bool open =
      std::ranges::any_of(current_, [](const auto& one) { return !one.second.closed; });
  Pause needed = std::clamp(2 * within_, unknown_yet, incomplete);
  const bool known = !this->needed().empty();
  if (known || said_.size() != 0) {
    const Pause rest = known || said_.is_countable() ? Pause(0) : unknown_yet;  // how many ranks?
    // The first set may have had what no later one has: a configuration, a log.
    const Pause longest =
        lone_ && !open ? std::clamp(4 * std::max(within_, rested_), 3 * unknown_yet, incomplete)
                       : incomplete;
    needed = is_complete() && !open ? rest : std::max(longest, needed);
  }
  return std::max(Pause(0), std::chrono::ceil<Pause>(last_ + needed - now));
}

void Moments::captured() {
  due_ = false;
  captured_ = true;
  new_ = !in_flux_.empty();
  in_flux_.clear();
  before_.clear();
}

}  // namespace spotter::guard

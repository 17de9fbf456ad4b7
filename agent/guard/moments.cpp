#include "agent/guard/moments.hpp"

#include <fnmatch.h>

#include <algorithm>
#include <array>
#include <ranges>
#include <sstream>
#include <utility>

#include "agent/base/text.hpp"

namespace spotter::guard {
namespace {

using Pause = Moments::Pause;

constexpr std::size_t remembered = 3;  // sets; a name that one of them lacks is not usual
// Nothing is known yet of what belongs together; other ranks, and callbacks, add theirs.
constexpr Pause unknown_yet(1000);
// The same, of a file whose name says that other ranks have theirs.
constexpr Pause unknown_ranks(2000);
// The set lacks what sets usually have, and the script must have gone on to something else.
constexpr Pause incomplete(30'000);

// All is there but a best model, which may be copied as soon as the rest is.
constexpr Pause behind_the_rest(100);
// A file that gets another name so soon had that one for a while alone.
constexpr Pause right_behind(500);

bool is_digit(char each) { return each >= '0' && each <= '9'; }

// A file that grows for longer, a part after the other, is a log.
constexpr Pause longest_parts(30'000);

constexpr int sets_of_a_log = 2;  // during which it is open
// After so many saves what was written in the first alone (config.json) is of none.
constexpr int many = 4;
// After so many sets in a row that ended although a file was awaited, counts say nothing.
constexpr int sets_to_mislead = 3;

template <class States>
Shapes shapes_of(const States& names, bool with_awaited = false) {
  Shapes shapes;
  for (const auto& [name, state] : names)
    if (state.closed || (with_awaited && state.awaited)) ++shapes[shape_of(name)];
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

// A best model is saved now and then, whatever else is: such names are awaited by their like alone.
bool is_best(const std::string& name) { return lower_case(name).find("best") != name.npos; }

// A number behind one of these words, apart from it or not, is a process's, or a part's. No answer:
// the name has no such number.
std::optional<std::vector<std::string>> numbers_without_ranks(const std::string& name) {
  std::vector<std::string> others;
  const auto numbers = numbers_in(name);
  std::size_t at = 0;
  for (const std::string& number : numbers) {
    at = name.find(number, at);
    const std::string before = lower_case(name.substr(0, at));
    const auto end = before.find_last_not_of("-_") + 1;
    const auto word = before.find_last_not_of("abcdefghijklmnopqrstuvwxyz", end - 1) + 1;
    constexpr std::array<std::string_view, 5> words{"rank", "shard", "part", "worker", "gpu"};
    if (end == 0 || std::ranges::find(words, before.substr(word, end - word)) == words.end())
      others.push_back(number);
    at += number.size();
  }
  return others.size() < numbers.size() ? std::optional(std::move(others)) : std::nullopt;
}

bool is_of_a_rank(const std::string& name) {
  const std::string lower = lower_case(name);
  return lower.find("rank") != lower.npos || lower.ends_with(".distcp");
}

bool has_some(const Shapes& needed, const Shapes& there) {
  return std::ranges::any_of(there, [&](const auto& one) { return needed.contains(one.first); });
}

// A set that has none of them is another kind of set.
bool lacks(const Shapes& needed, const Shapes& there) {
  const bool best = std::ranges::any_of(std::views::keys(there), is_best);
  return has_some(needed, there) && std::ranges::any_of(needed, [&](const auto& one) {
           if (is_best(one.first) && !best) return false;
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
  return !patterns_.empty() && std::ranges::all_of(patterns_, [](const std::string& pattern) {
    return pattern.find_first_of("*?[") == std::string::npos;
  });
}

void Moments::wrote(const std::string& name, bool closed, Time now, bool companion, bool grew) {
  if (const auto open = open_.find(name); open != open_.end()) {
    if (!closed) return;
    open_.erase(open);
  }
  if (captured_ && !new_) {
    burst_.clear();
    in_burst_ = true;
  }
  const auto known = current_.find(name);
  const bool goes_on = known != current_.end() && is_written_on(*known, grew, now);
  const bool again = known != current_.end() && known->second.closed && !goes_on;
  Kind& kind = kinds_[shape_of(name)];
  // Files that have only numbers apart, each once a save (`rank_0.pt`, `rank_1.pt`), seemed to be a
  // series until the first of them is written over.
  if (!kind.over && !goes_on && written_.contains(name)) {
    kind.over = true;
    if (kind.names > 1 && !companion) {  // what was taken for several sets is one
      usual_.clear();
      captured_shapes_.clear();
    }
  }
  const bool may_begin =
      !companion || (known != current_.end() &&
                     std::ranges::all_of(std::views::values(current_), &State::closed));
  const bool leads = !companion && is_next_leader(name, kind);
  in_burst_ = in_burst_ && !leads;
  const bool is_new = known == current_.end() && !is_another_ranks(name, kind, now);
  if (!current_.empty() && (is_new || again) && may_begin && (leads || begins(name, kind)))
    begin_set(name);
  learn_folder(name);
  if (current_.empty()) first_ = name;
  State& state = current_[name];
  if (closed && !goes_on) state.since = now;
  state.closed = closed;
  state.awaited = state.captured = false;
  state.goes_on = goes_on;
  state.at = now;
  state.kind = &kind;
  if (closed && !goes_on) state.finished = &finish(name, kind);
  if (in_burst_) burst_.insert(name);
  if (due_) in_flux_.insert(name);
  miss(name);
  last_ = now;
  new_ = true;
}

// h5py.File(path, "a"), a table after the other: closed after each part, and whole after the last.
bool Moments::is_written_on(const std::pair<const std::string, State>& one, bool grew, Time now) {
  const State& state = one.second;
  const bool newest = state.finished != nullptr && state.finished->turn == turn_;
  if (!(state.closed ? grew : state.goes_on) || !newest || now - state.at >= unknown_yet)
    return false;
  bool& is_one = parts_.try_emplace(one.first, true).first->second;
  is_one = is_one && now - state.since < longest_parts;
  return is_one;
}

// Another rank's file of this save: they differ in the numbers of ranks alone.
bool Moments::is_another_ranks(const std::string& name, const Kind& kind, Time now) const {
  if (captured_ && now - last_ >= incomplete) return false;  // the script has gone on
  const auto mine = numbers_without_ranks(name);
  return mine && std::ranges::any_of(current_, [&](const auto& one) {
           return one.second.kind == &kind && numbers_without_ranks(one.first) == mine;
         });
}

bool Moments::awaits_renewed() const {
  return std::ranges::any_of(std::views::values(current_), &State::awaited);
}

bool Moments::are_in_parts() const {
  return std::ranges::any_of(
      parts_, [this](const auto& one) { return one.second && current_.contains(one.first); });
}

// It was of the set that is not captured yet: what is left of that belongs to the current one.
void Moments::miss(const std::string& name) {
  if (!due_ || !before_.contains(name)) return;
  in_flux_.clear();
  due_ = false;
  broken_ = true;
}

bool Moments::knows(const std::string& name) const {
  return current_.contains(name) || before_.contains(name) || written_.contains(name);
}

bool Moments::is_current(const std::string& name) const {
  const auto at = current_.find(name);
  return at != current_.end() ? !at->second.awaited : broken_ && before_.contains(name);
}

bool Moments::is_of_captured(const std::string& name) const {
  return is_current(name) || before_.contains(name);
}

// A run's first file is the first one of a save; so is the next one by its numbers. But of files
// that are found, not seen to be written, another may have been the first.
bool Moments::is_next_leader(const std::string& name, const Kind& kind) {
  if (leader_ == nullptr) leader_ = &kind;
  if (leader_ != &kind || kind.over || said_.size() != 0) return false;
  const std::string before = std::exchange(leads_, first_component(name));
  const auto mine = numbers_in(leads_);
  const auto shares = [&mine](const std::string& other) {
    return std::ranges::any_of(numbers_in(first_component(other)), [&mine](const auto& one) {
      return std::ranges::find(mine, one) != mine.end();
    });
  };
  return !shares(before) && std::ranges::none_of(std::views::keys(current_), shares);
}

const Moments::Written& Moments::finish(const std::string& name, Kind& kind) {
  Written& its = written_[name];
  its.at_once = its.times > 0 && its.turn == turn_;
  its.turn = ++turn_;
  if (++its.times > 1) return its;
  its.kind = &kind;
  its.best = is_best(name);
  ++kind.names;
  kind.turn = turn_;
  return its;
}

// A folder that has only numbers apart from another one is a save by itself, with all that is in
// it.
void Moments::learn_folder(const std::string& name) {
  const std::string folder = first_component(name);
  if (folder == name) return;
  std::string& other = numbered_.try_emplace(shape_of(folder), folder).first->second;
  if (other.empty() || other == folder) return;
  Shapes shapes;
  for (auto at = written_.lower_bound(other + '/');
       at != written_.end() && at->first.starts_with(other + '/'); ++at)
    ++shapes[shape_of(at->first)];
  other = folder;
  // It was removed before, or had whole saves in it.
  if (shapes.empty() || !lacks(shapes, needed())) return;
  usual_ = {shapes};
  other.clear();
}

// The number of saves that it seems to be of: in place as often as it was finished, by numbers as
// many names of its shape as came.
int Moments::round_of(const std::string& name) const {
  const auto kind = kinds_.find(shape_of(name));
  if (kind == kinds_.end()) return 0;
  const auto at = written_.find(name);
  return at == written_.end() || kind->second.is_series() ? kind->second.names : at->second.times;
}

// A file that was finished as often as one of this set until now is to be written once more; also
// where that one is written twice in a save, at its begin and its end.
bool Moments::lags() const {
  if (!counts_) return false;
  std::array<std::set<int>, 2> all_before, all_twice;  // of best ones, too
  for (const auto& [name, state] : current_) {
    if (state.finished == nullptr || state.finished->times < 2) continue;
    const Written& its = *state.finished;
    all_before[its.best].insert(its.times - 1);
    if (its.times > 2 && its.at_once) all_twice[its.best].insert(its.times - 1);
  }
  return std::ranges::any_of(written_, [&](const auto& one) {
    const Written& its = one.second;
    const auto& before = all_before[its.best];
    const auto& twice = all_twice[its.best];
    const bool is_series = its.kind->is_series();
    if (is_series && its.kind->turn > its.turn) return false;  // model_20.pt is in its place
    const int times = is_series ? its.kind->names : its.times;
    return before.contains(times) || twice.contains(2 * its.times);
  });
}

// Each file that is written over was finished as often as the others, and nothing comes by numbers.
bool Moments::is_even() const {
  if (!counts_) return false;
  int times = 0, least = many;
  const bool best = std::ranges::all_of(std::views::keys(current_), is_best);
  for (const auto& [name, its] : written_) {
    if (its.best != best) continue;
    const bool is_new = its.turn + written_.size() > turn_;  // fold_2/last.pt
    if (its.times == 1 && (its.kind->is_series() || is_new)) return false;
    if (its.times > 1 && times > 1 && its.times != times) return false;
    times = std::max(times, its.times);
    least = std::min(least, its.times);
  }
  return times > 1 && (least > 1 || times >= many);
}

void Moments::forget(const std::string& name) {
  for (std::deque<Shapes>* sets : {&usual_, &captured_shapes_}) {
    for (Shapes& shapes : *sets) shapes.erase(shape_of(name));
    std::erase_if(*sets, [](const Shapes& shapes) { return shapes.empty(); });
  }
  if (const auto kind = kinds_.find(shape_of(name));
      kind != kinds_.end() && leader_ == &kind->second)
    leader_ = nullptr;
  burst_.erase(name);
  before_.erase(name);
  in_flux_.erase(name);
  open_.erase(name);
  written_.erase(name);
  parts_.erase(name);
  if (current_.erase(name) == 0) return;
  if (first_ == name) first_ = current_.empty() ? std::string() : current_.begin()->first;
  new_ = new_ && (!current_.empty() || broken_);
}

void Moments::removed(const std::string& name, Time now, bool to_be_renewed) {
  const auto written = current_.find(name);
  const bool temporary = written != current_.end() && written->second.closed &&
                         now - written->second.at < right_behind && !stays_.contains(name);
  to_be_renewed = to_be_renewed && !temporary && !in_vain_.contains(name);
  if (to_be_renewed) stays_.insert(name);
  const bool begins = to_be_renewed && captured_ && !new_ && !current_.empty();
  if (begins) {
    burst_.clear();
    in_burst_ = false;
    begin_set(name);
  }
  const auto known = current_.find(name);
  if (known != current_.end()) {
    const State& state = known->second;
    if (state.closed && !to_be_renewed && needed().contains(shape_of(name)))
      (state.captured ? stripped_ : lost_) = true;
    current_.erase(known);
    stripped_ = stripped_ && !current_.empty();
  }
  if (to_be_renewed) {
    if (current_.empty()) first_ = name;
    current_[name] = {
        .awaited = true, .carried = begins, .at = now, .kind = &kinds_[shape_of(name)]};
  }
  burst_.erase(name);
  miss(name);
  before_.erase(name);
  open_.erase(name);
  written_.erase(name);
  last_ = now;
  new_ = true;
}

// Does writing this name begin the next set? The files since the last rest may belong to it, too:
// that is seen by a later name.
bool Moments::begins(const std::string& name, const Kind& kind) const {
  if (said_.size() != 0) return begins_as_said(name);
  if (current_.contains(name))  // it was finished, and is written again
    return in_burst_ ? !burst_.contains(name) : name == first_ || is_first_finished(name);
  const std::string unit = first_component(name);
  const std::string shape = shape_of(unit);
  std::set<std::string> others;  // numbers of the set's units
  bool same_shape = false, same_folder = false, next_there = false;
  for (const auto& [other, state] : current_) {
    const std::string its = first_component(other);
    if (state.awaited || (in_burst_ && burst_.contains(other))) continue;
    if (its == unit) {
      // A folder of many checkpoints, which lie deeper.
      same_folder = true;
      next_there = next_there || (in_burst_ && state.kind == &kind);
      continue;
    }
    for (std::string& number : numbers_in(its)) others.insert(std::move(number));
    // `rank1.pt` beside `rank0.pt`, both written over in place, is no other save.
    same_shape = same_shape || (shape_of(its) == shape && !state.kind->over);
  }
  if (same_folder) {
    const auto numbered = numbered_.find(shape);
    return next_there && (numbered == numbered_.end() || !numbered->second.empty());
  }
  // `optim_10_rank1` after `optim_10_rank0` is of the same set, `epoch=2-step=20` after
  // `epoch=1-step=10` is not: they share no number.
  const bool shares = std::ranges::any_of(
      numbers_in(unit), [&others](const std::string& number) { return others.contains(number); });
  // A number that never changes (resnet50_epoch_3, a loss below 1) says nothing after a rest. Nor
  // does a shape that is usual belong to what is complete: fold_2/last.pt.
  const bool rested = in_burst_ && burst_.empty();
  return (same_shape && (!shares || rested)) ||
         (rested && !written_.contains(name) && needed().contains(shape_of(name)) && is_complete());
}

// The file that came first has not been finished since the run began (a log that stays open): this
// was the first that was.
bool Moments::is_first_finished(const std::string& name) const {
  const Written* mine = current_.at(name).finished;
  return mine != nullptr && !written_.contains(first_) &&
         std::ranges::none_of(std::views::values(current_), [mine](const State& other) {
           return other.finished != nullptr && other.finished->turn < mine->turn;
         });
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

void Moments::begin_set(const std::string& first) {
  // A script that is out of step for good: it wrote one file once more, or left one out.
  misled_ = lags() ? misled_ + 1 : 0;
  counts_ = counts_ && misled_ < sets_to_mislead;
  std::map<std::string, State> next;
  if (in_burst_) {
    const int round = round_of(first);
    for (const std::string& name : burst_) {
      const bool open = !current_.at(name).closed;
      if (round_of(name) + open != round) next.insert(current_.extract(name));
    }
  }
  // A set without a usual name (a best model, now and then) says nothing about what is usual.
  Shapes shapes = shapes_of(current_, true);
  const bool is_whole = !lost_ && !std::exchange(stripped_, false);
  if (is_whole && (needed().empty() || has_some(needed(), shapes)))
    usual_.push_back(std::move(shapes));
  if (usual_.size() > remembered) usual_.pop_front();
  const bool ends = new_ && !in_burst_ && has_all_said();
  due_ = (due_ || ends) && !(ends && lost_);
  broken_ = !due_ && (broken_ || (ends && lost_));
  lost_ = false;
  in_flux_.clear();
  for (auto& [name, sets] : open_) ++sets;
  for (auto at = current_.begin(); at != current_.end();) {
    const auto one = at++;
    if (!one->second.awaited) continue;
    auto node = current_.extract(one);
    if (!std::exchange(node.mapped().carried, true)) next.insert(std::move(node));
  }
  for (const auto& [name, state] : current_) {
    if (!state.closed) open_.emplace(name, 1);
    if (due_ || broken_) before_[name] = state.closed;
  }
  current_ = std::move(next);
  if (!current_.empty()) first_ = current_.begin()->first;
  if (due_)
    for (const auto& [name, state] : current_) in_flux_.insert(name);
  in_burst_ = false;
  captured_ = false;
}

std::deque<Shapes> Moments::learned() const {
  // That a file of parts is there says nothing, and the next run has to see them first.
  const auto needed = this->needed();
  const bool parts = std::ranges::any_of(parts_, [&](const auto& one) {
    return one.second &&
           (needed.empty() ? current_.contains(one.first) : needed.contains(shape_of(one.first)));
  });
  if (parts) return {};
  if (!usual_.empty()) return usual_;
  if (!captured_shapes_.empty() || !captured_ || current_.empty()) return captured_shapes_;
  return {shapes_of(current_)};
}

bool Moments::is_sure() const {
  if (are_in_parts() || (needed().empty() && said_.size() == 0)) return !new_;
  return is_complete();
}

bool Moments::awaits_best() const {
  const auto has_best = [](const auto& names) {
    return std::ranges::any_of(std::views::keys(names), is_best);
  };
  return !has_best(current_) && (has_best(kinds_) || std::ranges::any_of(usual_, has_best));
}

Shapes Moments::needed() const { return needed_of(usual_); }

bool Moments::has_all() const {
  return has_all_said() && !awaits_renewed() &&
         (is_even() || !lacks(needed(), shapes_of(current_)));
}

bool Moments::is_complete() const { return !lags() && has_all(); }

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
    if (!state.closed && !state.awaited && now - state.at >= pause) names.push_back(name);
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
  const bool ranks = std::ranges::any_of(std::views::keys(current_), is_of_a_rank);
  const Pause unknown = ranks ? unknown_ranks : unknown_yet;
  Pause needed = unknown;
  const bool awaited = lags() || awaits_renewed();
  const bool known = !this->needed().empty() || is_even();
  if (known || said_.size() != 0 || awaited) {
    // The number of ranks, or parts, is not known else.
    const bool counted = !are_in_parts() && (known || said_.is_countable());
    const bool whole = !awaited && !open && has_all();
    // The pause is counted from the first look: a file may be written over all the time.
    if (!whole || !counted || !awaits_best())
      whole_since_.reset();
    else if (!whole_since_)
      whole_since_ = last_;
    if (whole_since_)
      return std::max(Pause(0), std::chrono::ceil<Pause>(*whole_since_ + behind_the_rest - now));
    needed = !whole ? incomplete : counted ? Pause(0) : unknown;
  }
  return std::max(Pause(0), std::chrono::ceil<Pause>(last_ + needed - now));
}

void Moments::captured() {
  new_ = !in_flux_.empty();
  if (!new_ && !current_.empty()) captured_shapes_ = {shapes_of(current_)};
  if (!new_)
    for (auto& [name, state] : current_) state.captured = true;
  due_ = lost_ = false;
  whole_since_.reset();
  captured_ = true;
  if (!new_)
    std::erase_if(current_, [this](const auto& one) {
      if (one.second.awaited) in_vain_.insert(one.first);
      return one.second.awaited;
    });
  in_flux_.clear();
  before_.clear();
  broken_ = false;
}

}  // namespace spotter::guard

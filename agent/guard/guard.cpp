#include "agent/guard/guard.hpp"

#include <algorithm>
#include <array>
#include <tuple>

namespace spotter::guard {
namespace {

using std::chrono::milliseconds;

// A file of unknown format was closed, and about then somebody died. Was it the writer, in the
// middle? A trainer whose writer died ends within this time, too; `cp` in a shell script ends each
// time.
constexpr milliseconds settle_time(1000);
constexpr milliseconds look_again(10'000);  // at the processes, also while nothing happens

// What a folder must show after how long without a change in it. Between two files of one save a
// trainer may compute: it gathers what other machines hold. What is proven needs no time; the first
// moment is for other ranks, and for a callback that adds a file.
struct Patience {
  milliseconds quiet;
  Asked asked;
};
// The last is for a folder to which something was added when it was whole, by a callback after
// Transformers' trainer_state.json, for example: no trainer pauses for minutes while it writes over
// one.
constexpr std::array<Patience, 4> patience = {{{milliseconds(1000), Asked::Likeness},
                                               {milliseconds(5000), Asked::Format},
                                               {milliseconds(30'000), Asked::Quiet},
                                               {milliseconds(300'000), Asked::Nothing}}};

}  // namespace

Result<void> Guard::begin(bool again) {
  if (!again) {
    auto settled = keeper_.settle(false);
    if (!settled) return tl::unexpected(settled.error());
    say_settled(*settled);
  }
  if (auto begun = keeper_.begin(); !begun) return begun;
  auto files = changes_.watch();
  if (!files) return tl::unexpected(files.error());
  std::ignore = process_died_();
  if (again) look_at_all(true);
  return {};
}

std::chrono::milliseconds Guard::look() {
  take_changes();
  const auto now = Clock::now();
  milliseconds next = look_again;
  for (const std::string& name : closed_names()) {
    next = std::min(next, keeps_folders() ? look_at_folder(name, now) : look_at_file(name, now));
  }
  return next;
}

milliseconds Guard::look_at_file(const std::string& name, Clock::time_point now) {
  const auto at = closed_.find(name);
  if (at == closed_.end()) return look_again;  // written to meanwhile
  const auto left = std::chrono::ceil<milliseconds>(at->second.at + settle_time - now);
  const bool settled = !at->second.unsure || left <= milliseconds(0);
  take(name, settled ? Closing::Voluntary : Closing::Unsure);
  return settled ? look_again : left;
}

milliseconds Guard::look_at_folder(const std::string& name, Clock::time_point now) {
  const auto at = closed_.find(name);
  if (at == closed_.end()) return look_again;
  if (at->second.asked == patience.size()) return look_again;  // it waits for its trainer's end
  const Patience& step = patience[at->second.asked];
  const auto left = std::chrono::ceil<milliseconds>(at->second.at + step.quiet - now);
  if (left > milliseconds(0)) return left;
  ++at->second.asked;
  const bool killed = at->second.unsure && step.asked == Asked::Likeness;
  take_folder(name, killed ? Asked::Seal : step.asked);
  return milliseconds(100);
}

// In the order in which they were closed.
std::vector<std::string> Guard::closed_names() const {
  std::vector<std::pair<Clock::time_point, std::string>> order;
  for (const auto& [name, how] : closed_) order.emplace_back(how.at, name);
  std::sort(order.begin(), order.end());
  std::vector<std::string> names;
  for (auto& [at, name] : order) names.push_back(std::move(name));
  return names;
}

void Guard::take_changes() {
  const auto changes = changes_.read();
  const bool died = process_died_();
  bool all = false;
  for (const Change& change : changes) {
    if (change.kind == Change::Kind::Folders) {
      all = true;
    } else {
      touched_.insert(change.name);
      take_change(change, died);
    }
  }
  if (all) look_at_all(died);
}

void Guard::take_change(const Change& change, bool died) {
  if (keeps_folders()) {
    Closed& folder = closed_[change.name];
    folder = {Clock::now(), folder.unsure || died, 0, change.kind == Change::Kind::Removed};
  } else if (change.kind == Change::Kind::Modified) {
    closed_.erase(change.name);  // it will be closed again
  } else {
    closed_[change.name] = {Clock::now(), died};
  }
}

// Every file that is not known as it is now, as if it had just been closed.
void Guard::look_at_all(bool unsure) {
  const auto files = changes_.watch();
  if (!files) return complain(files.error().message);
  for (const Found& file : *files) {
    const Entry* entry = keeper_.record().find(file.name);
    const bool known = entry != nullptr && !entry->gone && entry->bytes == file.bytes &&
                       entry->mtime_ns == file.mtime_ns;
    if (!known) closed_.try_emplace(file.name, Closed{Clock::now(), unsure});
  }
}

void Guard::take(const std::string& name, Closing closing) {
  take(name, [&] { return keeper_.examine(name, closing); });
}

void Guard::take_folder(const std::string& name, Asked asked) {
  take(name, [&] { return keeper_.examine_folder(name, asked); });
}

void Guard::take(const std::string& name, const Examine& examine) {
  using Why = Refusal::Why;
  touched_.clear();
  auto candidate = examine();
  if (!candidate && candidate.error().why == Why::Unsure) return;  // it waits
  const auto known = closed_.extract(name);
  if (!candidate) {
    const Why why = candidate.error().why;
    // A folder lacks files as long as its trainer writes it.
    const bool wrong =
        why == Why::Failed || why == Why::Odd || (why == Why::Torn && !keeps_folders());
    if (wrong) {
      complain(keeper_.place().shown(name) +
               " is no finished checkpoint: " + candidate.error().words);
    }
    return;
  }
  take_changes();
  if (touched_.count(name) != 0) return keeper_.discard(*candidate);
  const auto finished = keeper_.finish(*std::move(candidate));
  if (!finished) return complain(finished.error().message);
  const auto& where = keeper_.place().where();
  const auto ago = known ? Clock::now() - known.mapped().at : Clock::duration();
  say_({.path = (where.mount / keeper_.place().shown(name)).string(),
        .step = finished->step,
        .bytes = finished->bytes,
        .name = name,
        .closed = std::chrono::system_clock::now() -
                  std::chrono::duration_cast<std::chrono::system_clock::duration>(ago)});
}

void Guard::end(bool voluntarily) {
  take_changes();
  for (const std::string& name : closed_names()) {
    const auto at = closed_.find(name);
    if (at == closed_.end()) continue;
    if (!keeps_folders()) {
      take(name, at->second.unsure && !voluntarily ? Closing::Unsure : Closing::Voluntary);
    } else if (voluntarily || !at->second.shrank) {
      take_folder(name, voluntarily ? Asked::Nothing : Asked::Seal);
    }
  }
  const auto settled = keeper_.settle(false);
  if (settled) return say_settled(*settled);
  complain(settled.error().message);
}

void Guard::say_settled(const Settled& settled) {
  for (const std::string& words : settled.said) say_({.words = words});
  for (const std::string& words : settled.torn) say_({.words = words});
}

// The same once: it may be true at each checkpoint.
void Guard::complain(const std::string& words) {
  if (words != last_complaint_) say_({.words = words});
  last_complaint_ = words;
}

}  // namespace spotter::guard

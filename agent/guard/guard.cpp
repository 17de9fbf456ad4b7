#include "agent/guard/guard.hpp"

#include <algorithm>
#include <tuple>

namespace spotter::guard {
namespace {

using std::chrono::milliseconds;

// A file of unknown format was closed, and about then somebody died. Was it the writer, in the
// middle? A trainer whose writer died ends within this time, too; `cp` in a shell script ends each
// time.
constexpr milliseconds settle_time(1000);
constexpr milliseconds look_again(10'000);  // who lives, also while nothing happens

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
  std::ignore = somebody_died_();
  if (again) see_all(true);
  return {};
}

std::chrono::milliseconds Guard::look() {
  take_changes();
  const auto now = Clock::now();
  milliseconds next = look_again;
  for (const std::string& name : closed_names()) {
    const auto at = closed_.find(name);
    if (at == closed_.end()) continue;  // written to meanwhile
    const auto left = std::chrono::ceil<milliseconds>(at->second.at + settle_time - now);
    const bool settled = !at->second.unsure || left <= milliseconds(0);
    if (!settled) next = std::min(next, left);
    take(name, settled ? Closing::Voluntary : Closing::Unsure);
  }
  return next;
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
  bool all = false;
  std::set<std::string> closed_now;
  for (const Change& change : changes_.read()) {
    if (change.kind == Change::Kind::Folders) {
      all = true;
      continue;
    }
    touched_.insert(change.name);
    if (change.kind == Change::Kind::Modified) {
      closed_.erase(change.name);  // it will be closed again
      closed_now.erase(change.name);
    } else {
      closed_[change.name] = {Clock::now(), false};
      closed_now.insert(change.name);
    }
  }
  const bool unsure = somebody_died_();
  for (const std::string& name : closed_now) closed_[name].unsure = unsure;
  if (all) see_all(unsure);
}

// Every file that is not known as it is now, as if it had just been closed.
void Guard::see_all(bool unsure) {
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
  using Why = Refusal::Why;
  touched_.clear();
  auto candidate = keeper_.examine(name, closing);
  if (!candidate && candidate.error().why == Why::Unsure) return;  // it waits
  closed_.erase(name);
  if (!candidate) {
    const bool wrong = candidate.error().why == Why::Torn || candidate.error().why == Why::Failed;
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
  say_({{}, (where.mount / keeper_.place().shown(name)).string(), finished->step, finished->bytes});
}

void Guard::end(bool voluntarily) {
  take_changes();
  for (const std::string& name : closed_names()) {
    const auto at = closed_.find(name);
    if (at == closed_.end()) continue;
    take(name, at->second.unsure && !voluntarily ? Closing::Unsure : Closing::Voluntary);
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

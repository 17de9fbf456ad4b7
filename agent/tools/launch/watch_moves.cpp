#include "agent/tools/launch/watch_moves.hpp"

#include "agent/io/complain.hpp"

namespace spotter::command {

bool Mover::asks_elsewhere(const Looked& looked, const launch::WatchMark& mark,
                           std::size_t place) const {
  return place != looked.here &&
         launch::asks_beside(looked.watched.own, looked.places[place].watched.own, mark);
}

bool Mover::asks_elsewhere(const Looked& looked, const launch::WatchMark& mark) const {
  for (std::size_t i = 0; i < places_.size(); ++i)
    if (asks_elsewhere(looked, mark, i)) return true;
  return false;
}

Result<void, CallError> Mover::quiet_others(const Looked& looked, const launch::WatchMark& mark,
                                            std::optional<std::size_t> but) const {
  for (std::size_t i = 0; i < places_.size(); ++i)
    if (i != but && asks_elsewhere(looked, mark, i))
      if (auto done = quiet(looked, at(looked, i)); !done) return done;
  return {};
}

Result<void, CallError> Mover::go(const Looked& looked, std::size_t to,
                                  const launch::WatchMark& mark, const std::string& rests) const {
  const launch::MoveMarks marks = launch::marks_of_move(mark);
  const There there = at(looked, to);
  if (const auto entered = raise(there, marks.entered, rests); !entered)
    return refused(looked, there, marks.refused, entered.error());
  return quiet(looked, at(looked, looked.here));
}

Result<void, CallError> Mover::carry_out(const Looked& looked, const launch::PriceStep& step,
                                         const launch::WatchMark& mark) const {
  using Action = launch::PriceStep::Action;
  const There there = at(looked, step.to);
  const launch::WatchMark refusal = launch::marks_of_move(mark).refused;
  if (step.action == Action::Return) return go(looked, step.to, mark, "no");
  if (step.action == Action::Go) return go(looked, step.to, mark, launch::tag_of(step.note));
  if (step.action == Action::Try) {
    const auto raised = raise(there, std::nullopt, launch::tag_of(step.note));
    return raised ? raised : refused(looked, there, refusal, raised.error());
  }
  if (step.action != Action::Withdraw) return {};
  if (!dry_run_)
    if (auto marked = write_mark(there, refusal); !marked) return marked;
  return quiet(looked, there);
}

Result<void, CallError> Mover::raise(const There& to, const std::optional<launch::WatchMark>& mark,
                                     const std::string& rests) const {
  if (!dry_run_) {
    if (mark)
      if (auto marked = write_mark(to, *mark); !marked) return marked;
    if (auto asks = write_rest(to, rests); !asks) return asks;
  }
  // EC2 changes no fleet that it is still changing, as one that was raised just before.
  if (to.seen.own()->target > 0) return {};
  return set_target(to, 1, dry_run_);
}

// The job stays; whether the place it was to enter has the target 1 after all the next look
// shows.
Result<void, CallError> Mover::refused(const Looked& looked, const There& to,
                                       const launch::WatchMark& mark, const CallError& why) const {
  try_to_write_rest(to, wire::to_rfc3339(looked.watched.now));
  if (auto marked = write_mark(to, mark); !marked) io::complain("watch", marked.error().message);
  return tl::unexpected(why);
}

// It says first that it rests: were that a mistake, it can be woken.
Result<void, CallError> Mover::quiet(const Looked& looked, const There& it) const {
  if (!dry_run_)
    if (auto rests = write_rest(it, wire::to_rfc3339(looked.watched.now)); !rests) return rests;
  return set_target(it, 0, dry_run_);
}

}  // namespace spotter::command

#include "agent/tools/launch/watch_moves.hpp"

#include "agent/io/complain.hpp"

namespace spotter::command {

bool Mover::asks_elsewhere(const Looked& looked, std::size_t place) const {
  const auto &here = looked.watched.own, &there = looked.places[place].watched.own;
  return place != looked.here && here && there && here->target > 0 && there->target > 0;
}

bool Mover::asks_elsewhere(const Looked& looked) const {
  for (std::size_t i = 0; i < places_.size(); ++i)
    if (asks_elsewhere(looked, i)) return true;
  return false;
}

Result<void, CallError> Mover::quiet_others(const Looked& looked) const {
  for (std::size_t i = 0; i < places_.size(); ++i)
    if (asks_elsewhere(looked, i))
      if (auto done = quiet(looked, at(looked, i)); !done) return done;
  return {};
}

Result<void, CallError> Mover::go(const Looked& looked, std::size_t to,
                                  const launch::WatchMark& mark) const {
  const launch::MoveMarks marks = launch::marks_of_move(mark);
  const There there = at(looked, to);
  if (const auto entered = raise(there, marks.entered); !entered)
    return refused(looked, there, marks.refused, entered.error());
  return quiet(looked, at(looked, looked.here));
}

Result<void, CallError> Mover::raise(const There& to, const launch::WatchMark& mark) const {
  if (!dry_run_) {
    if (auto marked = write_mark(to, mark); !marked) return marked;
    if (auto asks = write_rest(to, "no"); !asks) return asks;
  }
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

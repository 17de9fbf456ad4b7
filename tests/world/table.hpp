// Rows by id, each with the picture that an eventually consistent Describe call may still show:
// "the result of an API command you run ... might not be immediately visible to all subsequent
// commands" (https://docs.aws.amazon.com/ec2/latest/devguide/eventual-consistency.html).
#pragma once

#include <cassert>
#include <map>
#include <optional>

#include "agent/base/names.hpp"

namespace spotter::world {

template <class Id, class Row>
class Table {
 public:
  struct Entry {
    Row row;
    Time stale_until{};         // until then readers see `before`
    std::optional<Row> before;  // nothing: the row was not there
  };

  // The truth, or nullptr.
  Row* find(const Id& id) {
    const auto found = entries_.find(id);
    return found == entries_.end() ? nullptr : &found->second.row;
  }
  const Row* find(const Id& id) const { return const_cast<Table*>(this)->find(id); }

  // The row as a reader sees it, or nullptr.
  const Row* seen(const Id& id, Time now) const {
    const auto found = entries_.find(id);
    return found == entries_.end() ? nullptr : seen(found->second, now);
  }

  // REQUIRES: the id is not there yet.
  Row& add(const Id& id, Row row, Time now, Duration lag) {
    const auto [where, fresh] =
        entries_.emplace(id, Entry{std::move(row), now + lag, std::nullopt});
    assert(fresh);
    return where->second.row;
  }

  // The row, to be changed; readers see the earlier picture for `lag`. While an earlier picture is
  // shown already, it stays the one that is shown, and no longer than it would have been.
  // REQUIRES: the id is there.
  Row& change(const Id& id, Time now, Duration lag) {
    const auto found = entries_.find(id);
    assert(found != entries_.end());
    Entry& entry = found->second;
    if (lag > Duration{0} && now >= entry.stale_until) {
      entry.before = entry.row;
      entry.stale_until = now + lag;
    }
    return entry.row;
  }

  void remove(const Id& id) { entries_.erase(id); }

  // visit(const Row&) for each row that a reader sees, in the order of the ids.
  template <class Visit>
  void each_seen(Time now, Visit visit) const {
    for (const auto& [id, entry] : entries_) {
      if (const Row* row = seen(entry, now)) visit(*row);
    }
  }
  template <class Visit>
  void each(Visit visit) const {
    for (const auto& [id, entry] : entries_) visit(entry.row);
  }

 private:
  static const Row* seen(const Entry& entry, Time now) {
    if (now >= entry.stale_until) return &entry.row;
    return entry.before ? &*entry.before : nullptr;
  }

  std::map<Id, Entry> entries_;
};

}  // namespace spotter::world

#include "agent/host/attempt.hpp"

#include <sys/stat.h>

#include <algorithm>

#include "agent/config/job.hpp"
#include "agent/host/records.hpp"
#include "agent/host/share.hpp"
#include "agent/io/files.hpp"
#include "agent/sweep/claim.hpp"

namespace spotter::act::host {
namespace {

constexpr std::string_view had_again[] = {config::code_folder, config::container_folder,
                                          config::setup_folder, config::users_home};

struct Attempt {
  std::uint64_t token = 0;
  std::string name;
};

// By their tokens; a home that is not there has none.
Result<std::vector<Attempt>> attempts_in(const fs::path& home) {
  std::vector<Attempt> all;
  std::error_code error;
  fs::directory_iterator at(home, error), end;
  if (error == std::errc::no_such_file_or_directory) return all;
  for (; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename();
    if (const auto token = sweep::attempt_token(name)) all.push_back({*token, name});
  }
  if (error) return fail_errno(error, "cannot list " + home.string());
  std::ranges::sort(all, {}, &Attempt::token);
  return all;
}

// With its time: by that the record of a trainer's own files knows what was finished.
void copy_with_time(const fs::path& from, const fs::path& to, std::error_code& error) {
  const auto written = fs::last_write_time(from, error);
  if (!error) fs::copy_file(from, to, error);
  if (!error) fs::last_write_time(to, written, error);
}

// Files of a machine that still writes may come and go meanwhile.
void remove_quietly(const fs::path& path) {
  std::error_code ignored;
  fs::remove_all(path, ignored);
}

// An attempt is copied here first, and renamed when it is whole.
std::string copy_name(const std::string& attempt) { return "." + attempt + ".copy"; }

// ".attempt-3.copy" -> 3
std::optional<std::uint64_t> copy_token(std::string_view name) {
  if (!name.starts_with('.') || !name.ends_with(".copy")) return std::nullopt;
  name.remove_prefix(1);
  return sweep::attempt_token(name.substr(0, name.rfind('.')));
}

// Removes the copies of machines that ended while they copied: each is as large as an attempt.
// Copies of a later token stay: its machine may be at it, and ours may have slept.
void remove_copies_before(const fs::path& home, const std::string& attempt) {
  const auto token = sweep::attempt_token(attempt);
  std::vector<fs::path> copies;
  std::error_code error;
  fs::directory_iterator at(home, error), end;
  for (; !error && at != end; at.increment(error)) {
    const auto of = copy_token(at->path().filename().string());
    if (of && token && *of < *token) copies.push_back(at->path());
  }
  for (const fs::path& each : copies) remove_quietly(each);
}

Result<void> copy_one(const fs::directory_entry& entry, const fs::path& to) {
  std::error_code error;
  const auto kind = entry.symlink_status(error);
  if (!error && fs::is_symlink(kind)) {
    fs::copy_symlink(entry.path(), to, error);
  } else if (!error && fs::is_directory(kind)) {
    fs::create_directory(to, entry.path(), error);
  } else if (!error && fs::is_regular_file(kind)) {
    copy_with_time(entry.path(), to, error);
  }
  std::error_code ignored;  // one that cannot be looked at has not vanished
  const bool vanished =
      fs::symlink_status(entry.path(), ignored).type() == fs::file_type::not_found;
  if (!error || vanished) return {};
  return fail_errno(error, "cannot copy " + entry.path().string() + " to " + to.string());
}

Result<void> copy_tree(const fs::path& from, const fs::path& to) {
  std::error_code error;
  fs::recursive_directory_iterator at(from, error), end;
  for (; !error && at != end; at.increment(error)) {
    const fs::path below = at->path().lexically_relative(from);
    const std::string name = below.string();
    if (std::ranges::find(had_again, name) != std::end(had_again) || sweep::attempt_token(name) ||
        copy_token(name)) {
      at.disable_recursion_pending();
      continue;
    }
    TRY(copy_one(*at, to / below));
  }
  if (error == std::errc::no_such_file_or_directory) return {};
  if (error) return fail_errno(error, "cannot list " + from.string());
  return {};
}

// Elsewhere it may go better: the failures are counted by who hands the work out.
Result<void> forgive(const fs::path& attempt) {
  std::error_code error;
  if (!fs::exists(attempt / ".spotter", error)) return {};
  const auto read = TRY(read_ledger(attempt));
  wire::LedgerFile file = read.file;
  file.ledger.attempts_without_progress = file.ledger.starts_without_progress = 0;
  return write_ledger(attempt, file);
}

Result<void> make_copy(const fs::path& home, const std::string& parent, const fs::path& copy) {
  if (::mkdir(copy.c_str(), 0755) != 0) return fail_errno(errno, "cannot make " + copy.string());
  std::error_code error;
  const fs::path ledger = home / ".spotter" / "ledger.json";
  const bool without_claims = fs::exists(ledger, error);
  // If we cannot look, what may be there would be begun again.
  if (error) return fail_errno(error, "cannot look at " + ledger.string());
  if (parent.empty() && !without_claims) return {};
  if (!fs::is_directory(home / parent, error)) {
    return fail("attempt-gone", (home / parent).string() +
                                    " is gone: what was to go on from there "
                                    "was taken away, or is another machine's by now");
  }
  TRY(copy_tree(home / parent, copy));
  TRY(forgive(copy));
  return sync_tree(copy);
}

// Files that a run without claims has left there stay beside: they are the user's.
void make_room(const fs::path& link, std::error_code& error) {
  const auto kind = fs::symlink_status(link, error);
  if (!fs::exists(kind)) error.clear();
  if (error || !fs::exists(kind) || fs::is_symlink(kind)) return;
  fs::rename(link, link.string() + ".without-claims", error);
}

// A link is made beside and renamed over what is there: a reader sees the old one or the new one.
Result<void> link_to(const fs::path& target, const fs::path& link) {
  const fs::path beside = link.string() + ".new";
  std::error_code error;
  fs::remove(beside, error);
  fs::create_symlink(target, beside, error);
  if (!error) make_room(link, error);
  if (!error) fs::rename(beside, link, error);
  if (error) return fail_errno(error, "cannot make the link " + link.string());
  return {};
}

bool is_name(const std::string& attempt) { return sweep::attempt_token(attempt).has_value(); }

}  // namespace

Result<std::string> find_parent(const fs::path& home, std::uint64_t token) {
  const auto all = TRY(attempts_in(home));
  std::string newest;
  for (const Attempt& each : all)
    if (each.token < token) newest = each.name;
  return newest;
}

Result<void> begin_attempt(const fs::path& home, const std::string& attempt,
                           const std::string& parent) {
  if (!is_name(attempt) || (!parent.empty() && !is_name(parent)))
    return fail("bad-request", "an attempt is named by its token, not by a path");
  std::error_code error;
  fs::create_directories(home, error);
  if (error) return fail_errno(error, "cannot make " + home.string());
  const bool begun = fs::exists(home / attempt, error);
  if (error) return fail_errno(error, "cannot look at " + (home / attempt).string());
  if (!begun) {
    const fs::path copy = home / copy_name(attempt);
    remove_quietly(copy);
    if (const auto made = make_copy(home, parent, copy); !made) {
      remove_quietly(copy);
      return made;
    }
    fs::rename(copy, home / attempt, error);
    if (error) return fail_errno(error, "cannot rename " + copy.string());
  }
  const auto all = TRY(attempts_in(home));
  const auto is_parent = [&](const Attempt& each) { return each.name == parent; };
  const auto end = std::ranges::find_if(all, is_parent);
  if (end != all.end())
    for (auto each = all.begin(); each != end; ++each) remove_quietly(home / each->name);
  remove_copies_before(home, attempt);
  return sync_tree(home / attempt / ".spotter");
}

Result<void> publish_attempt(const fs::path& home, const std::string& attempt) {
  if (!is_name(attempt))
    return fail("bad-request", "an attempt is named by its token, not by a path");
  std::error_code error;
  const fs::path from = home / attempt;
  std::vector<fs::path> names;
  fs::directory_iterator at(from, error), end;
  for (; !error && at != end; at.increment(error)) {
    const fs::path name = at->path().filename();
    if (name != ".spotter" && name != "DONE") names.push_back(name);
  }
  if (error) return fail_errno(error, "cannot list " + from.string());
  names.emplace_back("DONE");  // who sees it sees the others
  for (const auto& name : names) TRY(link_to(fs::path(attempt) / name, home / name));
  const auto all = TRY(attempts_in(home));
  for (const Attempt& each : all)
    if (each.name != attempt) remove_quietly(home / each.name);
  remove_copies_before(home, attempt);
  return {};
}

}  // namespace spotter::act::host

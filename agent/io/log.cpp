#include "agent/io/log.hpp"

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/ansicolor_sink.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <sys/uio.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>

#ifndef SPOTTER_CLIENT
#define SD_JOURNAL_SUPPRESS_LOCATION
#include <systemd/sd-journal.h>
#endif

#include "agent/io/kernel.hpp"

namespace spotter::io {
namespace {

using std::chrono::steady_clock;

// A burst is logged whole; then one line in this time.
constexpr unsigned burst = 20;
constexpr std::chrono::seconds refill{10};

struct Bucket {
  unsigned left = burst;
  steady_clock::time_point filled;
  unsigned left_out = 0;
};

// There is one for the process: the agent logs from one thread.
struct Context {
  bool journal = false;
  std::map<std::string, std::string> fields;
  std::map<std::string, Bucket, std::less<>> buckets;  // by the kind's name
  std::string_view name, id;                           // of the line that is being written
  std::string recent;
  std::vector<Problem> problems;
};
Context& context() {
  static Context the_context;
  return the_context;
}

constexpr std::size_t recent_limit = 256U << 10;

void add_recent(std::string_view lines) {
  std::string& recent = context().recent;
  recent += lines;
  if (recent.size() <= recent_limit) return;
  recent.erase(0, recent.find('\n', recent.size() - recent_limit / 2) + 1);
  recent.insert(0, "(older lines are in the journal of the instance alone)\n");
}

constexpr std::size_t problems_kept = 3;

// Its first line: what follows may be a program's output, and a problem is shown to others, too.
void add_problem(std::string words, bool error) {
  words.resize(std::min(words.find('\n'), words.size()));
  auto& problems = context().problems;
  // Words that are said again and again are one problem.
  std::erase_if(problems, [&](const Problem& it) { return it.words == words; });
  if (problems.size() == problems_kept) problems.erase(problems.begin());
  problems.push_back({boot_time(), std::string(context().name), std::move(words), error});
}

#ifndef SPOTTER_CLIENT

// Is stderr the stream that systemd made for the journal (systemd.exec(5))?
bool stderr_is_the_journal() {
  const char* stream = std::getenv("JOURNAL_STREAM");
  struct stat seen {};
  if (!stream || ::fstat(STDERR_FILENO, &seen) != 0) return false;
  return std::to_string(seen.st_dev) + ":" + std::to_string(seen.st_ino) == stream;
}

int priority(spdlog::level::level_enum level) {
  if (level >= spdlog::level::critical) return 2;
  if (level == spdlog::level::err) return 3;
  if (level == spdlog::level::warn) return 4;
  return level <= spdlog::level::debug ? 7 : 6;
}

class JournalSink : public spdlog::sinks::base_sink<spdlog::details::null_mutex> {
  void sink_it_(const spdlog::details::log_msg& message) override {
    const std::string words(message.payload.data(), message.payload.size());
    std::vector<std::string> fields = {"MESSAGE=" + words,
                                       "PRIORITY=" + std::to_string(priority(message.level)),
                                       "SYSLOG_IDENTIFIER=spotter"};
    if (!context().id.empty()) {
      fields.push_back("MESSAGE_ID=" + std::string(context().id));
      fields.push_back("SPOTTER_EVENT=" + std::string(context().name));
    }
    for (const auto& [name, value] : context().fields) fields.push_back(name + "=" + value);
    std::vector<iovec> parts;
    for (auto& field : fields) parts.push_back({field.data(), field.size()});
    // The socket is PID 1's: while journald restarts, lines wait there.
    sd_journal_sendv(parts.data(), static_cast<int>(parts.size()));
  }
  void flush_() override {}
};

#endif

// Keeps the lines that take_log() takes.
class RecentSink : public spdlog::sinks::base_sink<spdlog::details::null_mutex> {
 public:
  RecentSink() {
    set_formatter(std::make_unique<spdlog::pattern_formatter>("%Y-%m-%dT%H:%M:%S.%eZ",
                                                              spdlog::pattern_time_type::utc, ""));
  }

 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    if (message.level >= spdlog::level::warn)
      add_problem(std::string(message.payload.data(), message.payload.size()),
                  message.level >= spdlog::level::err);
    spdlog::memory_buf_t time;
    formatter_->format(message, time);
    const auto level = spdlog::level::to_string_view(message.level);
    const auto at = context().fields.find("INSTANCE_ID");
    const std::string instance = at == context().fields.end() ? "-" : at->second;
    add_recent(
        spdlog::fmt_lib::format("{} {} {:<7} {}\n", std::string_view(time.data(), time.size()),
                                instance, std::string_view(level.data(), level.size()),
                                std::string_view(message.payload.data(), message.payload.size())));
  }
  void flush_() override {}
};

// Whether a line of this kind is logged now; `left_out`: how many before it were not.
bool is_logged(std::string_view name, unsigned& left_out) {
  const auto now = steady_clock::now();
  const auto at = context().buckets.find(name);
  Bucket& bucket = at != context().buckets.end()
                       ? at->second
                       : context().buckets.emplace(name, Bucket{burst, now, 0}).first->second;
  const auto drops = (now - bucket.filled) / refill;
  if (drops > 0) {
    bucket.left = static_cast<unsigned>(std::min<std::int64_t>(burst, bucket.left + drops));
    bucket.filled += drops * refill;
  }
  if (bucket.left == 0) {
    ++bucket.left_out;
    return false;
  }
  --bucket.left;
  left_out = std::exchange(bucket.left_out, 0);
  return true;
}

}  // namespace

void log_to_stderr() {
  auto sink = std::make_shared<spdlog::sinks::ansicolor_stderr_sink_mt>();
  sink->set_pattern("%^%l%$: %v");
  spdlog::set_default_logger(std::make_shared<spdlog::logger>("spotter", std::move(sink)));
}

#ifndef SPOTTER_CLIENT
void set_up_log() {
  context().journal = stderr_is_the_journal();
  spdlog::sink_ptr sink = std::make_shared<JournalSink>();
  if (!context().journal) {
    sink = std::make_shared<spdlog::sinks::ansicolor_stderr_sink_st>();
    sink->set_pattern("%Y-%m-%dT%H:%M:%S.%e %^%-7l%$ %v");
  }
  const spdlog::sinks_init_list sinks = {sink, std::make_shared<RecentSink>()};
  spdlog::set_default_logger(std::make_shared<spdlog::logger>("spotter", sinks));
}
#endif

const std::vector<Problem>& recent_problems() { return context().problems; }

std::string take_log() { return std::exchange(context().recent, {}); }

void put_log_back(std::string lines) {
  lines += std::exchange(context().recent, {});
  add_recent(lines);
}

void set_log_field(const std::string& name, std::string_view value) {
  if (value.empty())
    context().fields.erase(name);
  else
    context().fields[name] = value;
}

void note_line(std::string_view name, std::string_view id, spdlog::level::level_enum level,
               const std::string& words) {
  unsigned left_out = 0;
  if (context().journal && !is_logged(name, left_out)) return;
  context().name = name;
  context().id = id;
  const std::string more =
      left_out == 0 ? "" : " (" + std::to_string(left_out) + " like this were left out)";
  spdlog::log(level, "{}{}", words, more);
  context().name = context().id = {};
}

int complain(const char* command, const std::string& what, int status) {
  std::fprintf(stderr, "spotter %s: %s\n", command, what.c_str());
  return status;
}

int ended(const char* command, const Result<int>& end) {
  if (end) return *end;
  if (!end.error().message.empty()) complain(command, end.error().message);
  return end.error().kind == input_mistake ? wrong_input : 1;
}

}  // namespace spotter::io

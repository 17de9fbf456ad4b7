#include "agent/wire/status.hpp"

#include <algorithm>
#include <cmath>

#include "agent/base/text.hpp"
#include "agent/base/version.hpp"
#include "agent/wire/datagram.hpp"

namespace spotter::wire {
namespace {

constexpr std::size_t label_width = 12;
constexpr std::size_t narrowest = 24;

// The file may hold anything: a value of the wrong type counts as absent.
class Fields {
 public:
  Fields(const Json& object, Time now) : object_(object), now_(now) {}

  std::string text(const char* name) const {
    const Json value = object_.is_object() ? object_.value(name, Json()) : Json();
    if (value.is_string()) return printable(value.get<std::string>());
    return value.is_number() ? value.dump() : std::string();
  }
  std::optional<double> number(const char* name) const {
    return object_.is_object() ? number_field(object_, name) : std::nullopt;
  }
  // Seconds until then.
  std::optional<double> until(const char* name) const {
    const auto at = number(name);
    if (!at) return std::nullopt;
    return (*at - static_cast<double>(now_.time_since_epoch().count())) / 1000;
  }
  MetricValues metrics() const {
    return object_.is_object() ? metrics_field(object_, "metrics") : MetricValues();
  }
  Json object(const char* name) const {
    const Json value = object_.is_object() ? object_.value(name, Json()) : Json();
    return value.is_object() ? value : Json::object();
  }
  Json list(const char* name) const {
    const Json value = object_.is_object() ? object_.value(name, Json()) : Json();
    return value.is_array() ? value : Json::array();
  }

 private:
  const Json& object_;
  Time now_;
};

class Page {
 public:
  explicit Page(std::size_t columns) : columns_(std::max(columns, narrowest)) {}

  void line(const std::string& label, const std::string& value) {
    if (value.empty()) return;
    std::string text = label;
    text.resize(label_width, ' ');
    text += value;
    while (text.size() > columns_) {  // a sentence goes on in the next line
      const auto blank = text.rfind(' ', columns_);
      if (blank == text.npos || blank < label_width) break;
      text_ += text.substr(0, blank) + "\n";
      text = std::string(label_width, ' ') + text.substr(blank + 1);
    }
    // A word that is too long is cut between characters, not inside one.
    if (text.size() > columns_) {
      std::size_t end = columns_;
      while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0U) == 0x80U) --end;
      text.resize(end);
    }
    text_ += text + "\n";
  }
  std::size_t room() const { return columns_ - label_width; }
  std::string take() { return std::move(text_); }

 private:
  std::size_t columns_;
  std::string text_;
};

std::string joined(const std::string& one, const char* between, const std::string& other) {
  return one + (one.empty() || other.empty() ? "" : between) + other;
}

// A sentence of parts, as many of them in a line as there is room for.
void add_parts(Page& page, const std::string& label, const std::string& parts) {
  constexpr std::string_view between = "; ";
  std::string line, of_line = label;
  for (std::size_t begin = 0; begin < parts.size();) {
    const std::size_t end = std::min(parts.find(between, begin), parts.size());
    const std::string part = parts.substr(begin, end - begin);
    if (!line.empty() && line.size() + between.size() + part.size() > page.room()) {
      page.line(std::exchange(of_line, ""), line + ";");
      line.clear();
    }
    line = joined(line, "; ", part);
    begin = end + between.size();
  }
  page.line(of_line, line);
}

std::string of_total(const char* word, const std::string& number, const std::string& total) {
  if (number.empty()) return "";
  return word + number + (total.empty() ? "" : " of " + total);
}

void add_progress(Page& page, const Fields& is) {
  const std::string steps = joined(of_total("step ", is.text("step"), is.text("steps_total")), ", ",
                                   of_total("epoch ", is.text("epoch"), is.text("epochs_total")));
  const auto step = is.number("step"), total = is.number("steps_total");
  const bool has_part = step && total && *total > 0 && *step >= 0;
  if (!has_part) return page.line("step", steps);
  const double part = std::min(1.0, *step / *total);
  constexpr std::size_t widest = 32;
  const std::string percent = " " + printed("%.0f", std::floor(part * 100)) + " %";
  const std::size_t room = std::min(widest, page.room() - std::min(page.room(), percent.size()));
  page.line("progress", progress_bar(part, room) + percent);
  std::string pace;
  if (const auto rate = is.number("steps_per_second"); rate && *rate > 0) {
    pace = printed(*rate < 10 ? "%.2f" : "%.0f", *rate) + " a second";
    if (*total > *step) pace += ", " + duration_text((*total - *step) / *rate) + " left";
  }
  page.line("step", joined(steps, ", ", pace));
}

void add_gang(Page& page, const Fields& is, Time now) {
  const Json object = is.object("gang");
  const Fields gang(object, now);
  page.line("gang", printable(gang_words(object)));
  std::string members;
  for (const Json& each : gang.list("by_name")) {
    const Fields member(each, now);
    members = joined(members, "; ", joined(member.text("name"), " ", member.text("does")));
  }
  add_parts(page, "members", members);
  page.line("waits for", gang.text("waits_for"));
  if (const auto took = gang.number("took_seconds")) {
    std::string text = printed(*took < 10 ? "%.1f" : "%.0f", *took) + " s";
    if (const auto since = gang.until("round_boottime_ms"); since && *since <= 0)
      text += ", " + duration_text(-*since) + " ago";
    page.line("last round", joined("in " + text, ": ", printable(gang_reason(object))));
  }
  page.line("in memory", gang_copy(object));
  page.line("hung", gang.text("hung"));
  const auto part = gang.number("goodput"), trained = gang.number("trained_seconds");
  if (part && trained)
    page.line("goodput", printed("%.0f", std::floor(*part * 100)) +
                             " %: " + duration_text(*trained) + " in rounds, " +
                             duration_text(gang.number("between_seconds").value_or(0)) +
                             " between");
}

void add_learning(Page& page, const Fields& is) {
  std::string text;
  if (const auto loss = is.number("loss")) text = printed("%.5g", *loss);
  if (const auto accuracy = is.number("accuracy"))
    text = joined(text, ", ", "accuracy " + printed("%.4g", *accuracy));
  page.line("loss", text);
  std::string others;
  for (const auto& [name, value] : is.metrics()) {
    if (!others.empty()) others += ", ";
    others += name;
    others += ' ';
    others += printed("%.5g", value);
  }
  page.line("metrics", others);
}

void add_checkpoint(Page& page, const Fields& is) {
  std::string text = is.text("checkpoint_step");
  if (text.empty()) return;
  text = (is.text("checkpoint_counts") == "writes" ? "write " : "step ") + text;
  if (const auto since = is.until("checkpoint_boottime_ms"); since && *since <= 0)
    text += ", " + duration_text(-*since) + " ago";
  page.line("checkpoint", text);
}

// Adds a line on a home in a bucket: its step there, and the speed of the last upload.
void add_bucket(Page& page, const Fields& is) {
  const std::string step = is.text("bucket_step");
  std::string text = step.empty() ? "" : "has step " + step;
  const auto bytes = is.number("upload_bytes"), seconds = is.number("upload_seconds");
  if (bytes && seconds && *bytes > 0 && *seconds > 0) {
    constexpr double mega = 1e6;
    text = joined(text, ", ",
                  "the last upload: " + printed("%.1f", *bytes / mega) + " MB in " +
                      printed("%.1f", *seconds) + " s, " +
                      printed("%.1f", *bytes / mega / *seconds) + " MB/s");
  }
  page.line("bucket", text);
}

// With the progress of what is read behind the trainer.
std::string volume_of(const Fields& is) {
  const auto read = is.number("volume_read_bytes"), total = is.number("volume_total_bytes");
  if (!read || !total || *total <= 0) return is.text("volume");
  return joined(is.text("volume"), ", ",
                printed("%.0f", std::floor(*read / *total * 100)) + " % of its " +
                    printed("%.1f", *total / 1e9) + " GB read");
}

// The sentence on the stage has it already.
bool is_said(const Fields& is, const std::string& words) {
  return !words.empty() && is.text("says").find(words) != std::string::npos;
}

void add_what_comes(Page& page, const Fields& is) {
  if (const auto left = is.until("notice_deadline_ms"))
    page.line("notice", *left > 0 ? "the instance ends in " + duration_text(*left)
                                  : "the instance's end is overdue");
  if (const auto left = is.until("wake_boottime_ms"); left && *left > 0)
    page.line("next", "looks again in " + duration_text(*left));
  if (!is_said(is, is.text("blocked")))
    page.line("blocked", joined(is.text("blocked"), " ", is.text("detail")));
  page.line("capacity", is.text("capacity_says"));
  page.line("storage", is.text("storage_says"));
  page.line("put away", is.text("put_away"));
}

std::string spending_of(const Fields& is) {
  std::string text;
  if (const auto seconds = is.number("spent_seconds"); seconds && *seconds > 0)
    text = duration_text(*seconds) + " of instances";
  if (const auto dollars = is.number("spent_dollars"); dollars && *dollars > 0)
    text = joined(text, ", ", "$" + printed("%.2f", *dollars));
  const auto interruptions = is.number("interruptions");
  if (interruptions && *interruptions > 0)
    text = joined(text, ", ",
                  printed("%.0f", *interruptions) +
                      (*interruptions == 1 ? " interruption" : " interruptions"));
  const auto repeated = is.number("steps_repeated");
  if (repeated && *repeated > 0)
    text = joined(text, ", ", printed("%.0f", *repeated) + " steps trained twice");
  return text;
}

void add_problems(Page& page, const Fields& is, Time now) {
  const char* label = "lately";
  for (const Json& each : is.list("problems")) {
    const Fields problem(each, now);
    if (is_said(is, problem.text("words"))) continue;
    const auto since = problem.until("boottime_ms");
    const std::string when = since ? duration_text(std::max(0.0, -*since)) + " ago: " : "";
    page.line(std::exchange(label, ""), when + problem.text("words"));
  }
}

}  // namespace

// By decide/state.hpp.
std::string_view stage_words(std::string_view stage) {
  static constexpr std::pair<std::string_view, std::string_view> known[] = {
      {"starting", "booting looking-around identifying reading-fleet"},
      {"looking for its storage", "surveying"},
      {"attaching the volume", "attaching"},
      {"taking the volume", "claiming"},
      {"taking its storage", "writing-epoch"},
      {"mounting its storage", "finding-device inspecting mounting preparing"},
      {"formatting the volume", "formatting"},
      {"reading its record", "reading-ledger"},
      {"verifying checkpoints", "verifying"},
      {"moving to this zone",
       "snapshotting creating-candidate marking-verified committing promoting"},
      {"tidying up", "discarding tidying"},
      {"waiting for GPUs", "awaiting-gpus"},
      {"bringing its data", "preparing-data"},
      {"fetching the code", "fetching-code"},
      {"starting the trainer", "counting-attempt starting-trainer"},
      {"filling the volume", "filling marking-prepared"},
      {"stopping the trainer", "stopping"},
      {"syncing the result", "securing"},
      {"writing its record", "closing-ledger"},
      {"sending the result", "sending-result"},
      {"releasing its storage",
       "unmounting final-snapshot detaching releasing releasing-epoch releasing-data"},
      {"ending the machine", "giving-back"},
      {"finishing", "marking-done"},
      {"ending the fleet", "cancelling-fleet scaling-to-zero"},
      {"gave up", "gave-up"}};
  for (const auto& [words, names] : known)
    if (is_among(stage, names)) return words;
  return stage;
}

// Keeps UTF-8 characters whole.
std::string printable(std::string text) {
  for (char& each : text)
    if (static_cast<unsigned char>(each) < ' ' || each == '\x7f') each = ' ';
  return text;
}

std::string progress_bar(double part, std::size_t columns) {
  if (columns < 3) return "";
  const double inside = static_cast<double>(columns - 2);
  const auto full = static_cast<std::size_t>(std::clamp(part, 0.0, 1.0) * inside);
  return "[" + std::string(full, '#') + std::string(columns - 2 - full, '.') + "]";
}

std::string duration_text(double seconds) {
  constexpr double minute = 60, hour = 3600, day = 86400;
  if (seconds < 100) return printed("%.0f", seconds) + " s";
  if (seconds < 100 * minute) return printed("%.0f", seconds / minute) + " min";
  const double large = seconds < 2 * day ? hour : day, small = seconds < 2 * day ? minute : hour;
  const double whole = std::floor(seconds / large);
  const double rest = std::floor((seconds - whole * large) / small);
  const bool of_hours = large == hour;
  std::string text = printed("%.0f", whole) + (of_hours ? " h" : " d");
  if (rest > 0) text += " " + printed("%.0f", rest) + (of_hours ? " min" : " h");
  return text;
}

std::optional<std::string> status_text(std::string_view bytes, Time now, std::size_t columns) {
  const auto document = parse_json_object(bytes);
  if (!document) return std::nullopt;
  const Fields is(*document, now);
  if (is.text("version") != std::to_string(status_version)) return std::nullopt;
  Page page(columns);
  page.line("job", is.text("job"));
  const std::string stage = is.text("stage"), says = is.text("says");
  page.line("stage", says.empty() ? std::string(stage_words(stage)) : says);
  page.line("worker", is.text("worker_says"));
  page.line("claims", is.text("claims_say"));
  add_gang(page, is, now);
  add_progress(page, is);
  add_learning(page, is);
  add_checkpoint(page, is);
  add_bucket(page, is);
  std::string instance = joined(is.text("instance"), ", ", is.text("type"));
  page.line("instance", joined(instance, " in ", is.text("zone")));
  page.line("on demand", is.text("on_demand"));
  add_parts(page, "deadline", is.text("outlook"));
  add_parts(page, "watcher", is.text("watcher"));
  page.line("volume", volume_of(is));
  page.line("fleet", is.text("fleet"));
  add_what_comes(page, is);
  page.line("spent", spending_of(is));
  add_problems(page, is, now);
  if (const auto age = is.until("updated_boottime_ms"))
    page.line("seen", duration_text(std::max(0.0, -*age)) + " ago");
  return page.take();
}

std::string spent_words(std::string_view bytes) {
  const auto document = parse_json_object(bytes);
  return document ? spending_of(Fields(*document, Time())) : "";
}

std::string status_trouble(std::string_view bytes) {
  const auto document = parse_json_object(bytes);
  if (!document) return "half-written or damaged: ask again in a minute";
  const Fields is(*document, Time());
  const std::string version = is.text("version"), whose = is.text("spotter");
  if (version == std::to_string(status_version)) return "";
  if (version.empty()) return "no status of Spotter's";
  if (newer(*document, "version", status_version, "")) {
    return "written by a newer Spotter (" + (whose.empty() ? "" : "spotter " + whose + ", ") +
           "format " + version + ", this one reads " + std::to_string(status_version) +
           "): install that version or a later one";
  }
  return "written by " + (whose.empty() ? "another version of Spotter" : "spotter " + whose) +
         " in version " + version + " of the format; this one reads " +
         std::to_string(status_version) + ": update the older of the two";
}

std::string status_below(std::string_view bytes) {
  const auto document = parse_json_object(bytes);
  return document ? Fields(*document, Time()).text("run_directory") : "";
}

}  // namespace spotter::wire

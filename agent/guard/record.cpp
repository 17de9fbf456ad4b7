#include "agent/guard/record.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <initializer_list>
#include <tuple>

#include "agent/base/record.hpp"
#include "agent/base/text.hpp"
#include "trainer/library/manifest.hpp"

namespace spotter::guard {
namespace {

using nlohmann::json;

constexpr std::uint64_t known_format = 3;

bool is_in(const Row& row, std::uint64_t generation) {
  return row.from <= generation && (row.until == 0 || generation < row.until);
}

bool is_of(const std::string& name, const std::string& checkpoint) {
  return name.starts_with(checkpoint) &&
         (name.size() == checkpoint.size() || name[checkpoint.size()] == '/');
}

bool is_among(std::string_view word, std::initializer_list<std::string_view> words) {
  return std::ranges::find(words, word) != words.end();
}

// The certainty with which a number beside this word counts steps; 0: a number that is written to
// it is part of a name (resnet50).
constexpr int steps = 4, saves = 3, epochs = 2;
int rank(std::string_view word) {
  if (is_among(word, {"step", "steps", "iter", "iters", "iteration", "iterations", "it",
                      "globalstep", "ba"}))
    return steps;
  if (is_among(word, {"checkpoint", "ckpt", "cp", "chkpt", "chk", "save"})) return saves;
  if (is_among(word, {"epoch", "epochs", "ep"})) return epochs;
  return is_among(word, {"e", "s", "weights", "state", "run", "snapshot", "n"}) ? 1 : 0;
}

constexpr std::string_view digits = "0123456789", letters = "abcdefghijklmnopqrstuvwxyz";

// The words that say what the number before them counts: 3-it is no third iteration.
bool says_behind(std::string_view word) {
  return is_among(word,
                  {"step", "steps", "iter", "iters", "iteration", "iterations", "epoch", "epochs"});
}

// Behind a number are only values of metrics, and an extension. One without a name (0.32) follows
// the few words that Keras's own documents have before it.
bool is_last(std::string_view rest, std::string_view before) {
  constexpr std::array<std::string_view, 7> metrics{"loss", "acc", "val", "score",
                                                    "iou",  "map", "auc"};
  const auto skip = [&rest](std::string_view what) {
    const auto length = std::min(rest.find_first_not_of(what), rest.size());
    const std::string_view skipped = rest.substr(0, length);
    rest.remove_prefix(length);
    return skipped;
  };
  while (!skip("-_=").empty()) {
    const std::string_view name = skip("-_=abcdefghijklmnopqrstuvwxyz");
    const auto has = [&name](std::string_view metric) { return name.find(metric) != name.npos; };
    const bool fits = name.empty()
                          ? is_among(before, {"", "model", "improvement"}) || rank(before) > 0
                          : std::ranges::any_of(metrics, has);
    if (!fits || skip(digits).empty() || !rest.starts_with('.')) return false;
    rest.remove_prefix(1);
    if (skip(digits).empty()) return false;
    if (rest.starts_with("e-") || rest.starts_with("e+")) rest.remove_prefix(2), skip(digits);
  }
  return rest.empty() || (rest.size() > 1 && rest[0] == '.' && digits.find(rest[1]) == digits.npos);
}

// The length of a date at the text's begin, as 20261129 or 2026-11-29, with a time of at least
// hour and minute behind it or without; 0: it begins with none.
std::size_t date_at(std::string_view text) {
  const auto is_one = [text](std::size_t at, std::string_view of) {
    return at < text.size() && of.find(text[at]) != of.npos;
  };
  const auto pair = [text](std::size_t at, int least, int most) {
    const auto digits = at + 2 <= text.size() ? text.substr(at, 2) : "";
    const auto number = number_of_text<int>(digits);
    return number && digits.size() == 2 && *number >= least && *number <= most;
  };
  const std::size_t gap = is_one(4, "-_.") ? 1 : 0;
  const std::size_t month = 4 + gap, day = month + 2 + gap;
  const bool date = (text.starts_with("19") || text.starts_with("20")) && pair(2, 0, 99) &&
                    pair(month, 1, 12) && pair(day, 1, 31) &&
                    (gap == 0 || is_one(month + 2, "-_."));
  if (!date) return 0;
  std::size_t end = day + 2, at = end + (is_one(end, "-_T. ") ? 1 : 0);
  for (const int most : {23, 59, 59}) {
    if (!pair(at, 0, most)) break;
    at += 2;
    if (most == 59) end = at;
    if (is_one(at, "-_.:hm")) ++at;
  }
  return is_one(end, "0123456789") ? 0 : end;
}

// A date is no number of steps, but behind the word.
std::string without_dates(const std::string& name) {
  std::string text;
  for (std::size_t at = 0; at < name.size();) {
    const bool inside = !text.empty() && std::isdigit(static_cast<unsigned char>(text.back())) != 0;
    std::string_view before(text);
    while (!before.empty() && std::string_view("-_=").find(before.back()) != before.npos)
      before.remove_suffix(1);
    const bool step = lower_case(before).ends_with("step");
    const std::size_t length = inside || step ? 0 : date_at(std::string_view(name).substr(at));
    if (length == 0) text += name[at];
    at += std::max<std::size_t>(length, 1);
  }
  return text;
}

// A name is of any bytes, a text of JSON of UTF-8: of any other name each byte above 127 stands in
// it as a character of private use, U+EF80 to U+EFFF; and so in a name that has such a character.
std::string as_json(std::string name) {
  if (checkpoint::is_plain(name) && name.find("\xee\xbe") == name.npos &&
      name.find("\xee\xbf") == name.npos)
    return name;
  std::string text;
  for (const char each : name)
    text += (each & 0x80) == 0 ? std::string(1, each)
                               : std::string{'\xee', static_cast<char>(0xbe | (each >> 6 & 1)),
                                             static_cast<char>(0x80 | (each & 0x3f))};
  return text;
}

std::string from_json(std::string text) {
  for (std::size_t at = 0; (at = text.find('\xee', at)) != text.npos; ++at)
    if (at + 2 < text.size() && (text[at + 1] | 1) == '\xbf')
      text.replace(at, 3, 1,
                   static_cast<char>(0x80 | (text[at + 1] & 1) << 6 | (text[at + 2] & 0x3f)));
  return text;
}

void change_texts(json& value, std::string (*change)(std::string)) {
  if (value.is_string()) value = change(value.get<std::string>());
  json changed = value.is_object() ? json::object() : json();
  if (value.is_structured())
    for (auto& [key, each] : value.items()) {
      change_texts(each, change);
      if (value.is_object()) changed[change(key)] = std::move(each);
    }
  if (value.is_object()) value = std::move(changed);
}

}  // namespace

const Generation* Record::find(std::uint64_t generation) const {
  const auto at = std::ranges::find(generations, generation, &Generation::number);
  return at == generations.end() ? nullptr : &*at;
}

std::vector<const Row*> Record::rows_of(std::uint64_t generation) const {
  std::vector<const Row*> found;
  for (const Row& row : rows)
    if (is_in(row, generation)) found.push_back(&row);
  return found;
}

const Row* Record::row(std::string_view name) const {
  const auto [begin, end] = std::ranges::equal_range(rows, name, {}, &Row::name);
  const auto at = std::find_if(begin, end, [](const Row& row) { return row.until == 0; });
  return at == end ? nullptr : &*at;
}

std::string Record::checkpoint_of(const std::string& name) const {
  return of_files ? name : name.substr(0, name.find('/'));
}

bool Record::is_series(const std::string& name) const {
  const std::string checkpoint = checkpoint_of(name);
  const std::string shape = shape_of(checkpoint);
  if (shape.find('#') == std::string::npos || rewritten.contains(shape_of(name))) return false;
  // Those of one save say nothing: they may be written over. Each moment is looked at once, so that
  // a folder of thousands of files costs little.
  std::set<std::uint64_t> moments;
  for (const Row& row : rows) {
    if (moments.contains(row.from) || is_of(row.name, checkpoint)) continue;
    if (shape_of(checkpoint_of(row.name)) != shape) continue;
    moments.insert(row.from);
    if (moments.size() > 1) return true;
  }
  return false;
}

std::vector<Part> Record::parts_of(const std::string& checkpoint) const {
  std::vector<Part> parts;
  for (const Row& row : rows) {
    if (row.until != 0 || !row.link.empty() || !is_of(row.name, checkpoint)) continue;
    const bool file = row.name == checkpoint;
    parts.push_back({file ? row.name : row.name.substr(checkpoint.size() + 1), row.bytes,
                     row.mtime_ns, row.sum});
  }
  return parts;
}

Generation& Record::add(Generation generation, std::vector<Row> added,
                        const std::vector<std::string>& gone) {
  generation.number = newest_number() + 1;
  std::set<std::string> replaced(gone.begin(), gone.end());
  for (Row& row : added) {
    row.from = generation.number;
    row.until = 0;
    replaced.insert(row.name);
  }
  const std::set<std::string> removed(gone.begin(), gone.end());
  for (Row& row : rows) {
    if (row.until != 0 || !replaced.contains(row.name)) continue;
    row.until = generation.number;
    if (!removed.contains(row.name)) rewritten.insert(shape_of(row.name));
  }
  std::ranges::move(added, std::back_inserter(rows));
  std::ranges::sort(rows, {}, [](const Row& row) { return std::tie(row.name, row.from); });
  generations.push_back(std::move(generation));
  return generations.back();
}

void Record::amend(std::vector<Row> changed, const std::vector<std::string>& gone) {
  const std::uint64_t number = newest_number();
  Generation same = generations.back();
  add(same, std::move(changed), gone);
  generations.pop_back();
  for (Row& row : rows) {
    if (row.from == number + 1) row.from = number;
    if (row.until == number + 1) row.until = number;
  }
  std::erase_if(rows, [](const Row& row) { return row.until != 0 && row.until <= row.from; });
}

void Record::go_to(std::uint64_t generation) {
  const Generation* wanted = find(generation);
  std::vector<Row> back;
  std::set<std::string> names;
  for (const Row* row : rows_of(generation)) {
    names.insert(row->name);
    if (row->until != 0) back.push_back(*row);
  }
  std::vector<std::string> gone;
  for (const Row* row : rows_of(newest_number()))
    if (!names.contains(row->name)) gone.push_back(row->name);
  Generation next = *wanted;
  next.failed = false;
  add(std::move(next), std::move(back), gone);
}

void Record::forget_but(std::size_t count) {
  if (generations.size() > count)
    generations.erase(generations.begin(), generations.end() - static_cast<std::ptrdiff_t>(count));
  std::erase_if(rows, [this](const Row& row) {
    return row.until != 0 && row.until <= generations.front().number;
  });
}

std::optional<std::uint64_t> step_in(const std::string& checkpoint) {
  constexpr std::size_t longest = 15;
  const std::string name = lower_case(without_dates(checkpoint));
  const auto digit = [&name](std::size_t at) {
    return at < name.size() && digits.find(name[at]) != digits.npos;
  };
  const auto word_at = [&name](std::size_t at) {
    return name.substr(at, name.find_first_not_of(letters, at) - at);
  };
  std::optional<std::uint64_t> best;
  int best_rank = 0, rank_before = 0;
  for (auto at = name.find_first_of(digits); at != name.npos;) {
    const auto end = std::min(name.find_first_not_of(digits, at), name.size());
    const auto word_end = at == 0 ? 0 : name.find_last_not_of("-_=.", at - 1) + 1;
    const auto word = word_end == 0 ? 0 : name.find_last_not_of(letters, word_end - 1) + 1;
    const std::string before = name.substr(word, word_end - word);
    // rl_model_10000_steps, but not 19_step_500
    const auto behind = std::min(name.find_first_not_of("-_", end), name.size());
    const std::string after = word_at(behind);
    const auto next = name.find_first_not_of("-_=", behind + after.size());
    const bool apart = word_end < at || before.empty();
    const bool says = apart && says_behind(after) && !digit(next);
    // checkpoint_12_50000: epoch and update
    const bool follows = word_end > 0 && before.empty() && digit(word_end - 1);
    int surely = std::max(follows ? rank_before : rank(before), says ? rank(after) : 0);
    // The last number of a name that says nothing of it counts, unless it belongs to a word; a loss
    // behind it is none: weights.10-0.32
    if (surely < epochs) {
      const bool last = is_last(std::string_view(name).substr(end), before);
      surely = last && (surely > 0 || apart) ? 1 : 0;
    }
    rank_before = surely;
    const bool fraction = (at > 1 && name[at - 1] == '.' && digit(at - 2)) ||
                          (digit(end + 1) && name[end] == '.') ||
                          (before == "e" && word > 0 && digit(word - 1));
    // 7b is a model's size, 0.25 a loss
    const bool fits = end - at <= longest && (behind > end || after.empty() || says) && !fraction;
    if (fits && surely > 0 && surely >= best_rank) {
      const std::uint64_t number = std::stoull(name.substr(at, end - at));
      best = follows && surely == best_rank ? std::max(*best, number) : number;
      best_rank = surely;
    }
    at = name.find_first_of(digits, end);
  }
  return best;
}

std::string numbered(std::uint64_t number) {
  const std::string text = std::to_string(number);
  return std::string(text.size() < 6 ? 6 - text.size() : 0, '0') + text;
}

std::string some_of(const std::vector<std::string>& names) {
  constexpr std::size_t shown = 3;
  std::string text;
  for (std::size_t i = 0; i < names.size() && i < shown; ++i)
    text += (i == 0 ? "" : ", ") + names[i];
  return names.size() > shown ? text + " and " + std::to_string(names.size() - shown) + " more"
                              : text;
}

std::string bytes_text(std::uint64_t bytes) {
  constexpr double thousand = 1000;
  constexpr const char* units[] = {"kB", "MB", "GB", "TB"};
  if (bytes < 1000) return std::to_string(bytes) + " B";
  double value = static_cast<double>(bytes) / thousand;
  std::size_t unit = 0;
  for (; value >= thousand && unit + 1 < std::size(units); ++unit) value /= thousand;
  return printed(value < 10 ? "%.1f %s" : "%.0f %s", value, units[unit]);
}

std::string sum_of_parts(const std::vector<Part>& parts) {
  std::string lines;
  for (const Part& part : parts)
    lines += part.name + '\n' + std::to_string(part.bytes) + '\n' + part.sum + '\n';
  return checkpoint::sum_of(lines);
}

std::string seal(json object) {
  change_texts(object, &as_json);
  return checkpoint::seal(object);
}

std::optional<json> unseal(std::string_view bytes) {
  auto object = checkpoint::unseal(bytes);
  if (!object || !object->is_object()) return std::nullopt;
  change_texts(*object, &from_json);
  return std::move(*object);
}

std::string encode(const Record& record) {
  json object = wire::object_of(record);
  object["format"] = known_format;
  return seal(std::move(object));
}

Result<Record> decode(std::string_view bytes) {
  const auto damaged = [] { return failure("the record of finished checkpoints is damaged"); };
  const auto object = unseal(bytes);
  if (!object) return damaged();
  if (auto newer =
          wire::newer(*object, "format", known_format, "the record of finished checkpoints"))
    return tl::unexpected(std::move(*newer));
  Record record;
  if (object->value("format", json()) != known_format ||
      !wire::read_record(*object, record).empty())
    return damaged();
  const bool sorted = std::ranges::is_sorted(
      record.rows, {}, [](const Row& row) { return std::tie(row.name, row.from); });
  if (!sorted || !std::ranges::is_sorted(record.generations, {}, &Generation::number))
    return damaged();
  return record;
}

}  // namespace spotter::guard

#include "agent/guard/record.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdio>
#include <tuple>

#include "agent/base/text.hpp"
#include "trainer/library/manifest.hpp"

namespace spotter::guard {
namespace {

using nlohmann::json;

constexpr std::uint64_t known_format = 3;

json to_json(const Row& row) {
  json object = {
      {"name", row.name}, {"bytes", row.bytes}, {"mtime_ns", row.mtime_ns}, {"from", row.from}};
  for (const auto& [key, value] : {std::pair<const char*, const std::string&>{"sum", row.sum},
                                   {"kept", row.kept},
                                   {"link", row.link}})
    if (!value.empty()) object[key] = value;
  if (row.until != 0) object["until"] = row.until;
  if (row.companion) object["companion"] = true;
  if (row.grows) object["grows"] = true;
  return object;
}

Row row_of(const json& object) {
  return {.name = object.at("name").get<std::string>(),
          .bytes = object.at("bytes").get<std::uint64_t>(),
          .mtime_ns = object.at("mtime_ns").get<std::int64_t>(),
          .sum = object.value("sum", ""),
          .kept = object.value("kept", ""),
          .link = object.value("link", ""),
          .from = object.at("from").get<std::uint64_t>(),
          .until = object.value("until", std::uint64_t{0}),
          .companion = object.value("companion", false),
          .grows = object.value("grows", false)};
}

json to_json(const Generation& generation) {
  return {{"number", generation.number}, {"step", generation.step}, {"run", generation.run},
          {"time", generation.time},     {"name", generation.name}, {"failed", generation.failed}};
}

Generation generation_of(const json& object) {
  return {object.at("number").get<std::uint64_t>(), object.at("step").get<std::uint64_t>(),
          object.at("run").get<std::uint64_t>(),    object.at("time").get<std::int64_t>(),
          object.at("name").get<std::string>(),     object.at("failed").get<bool>()};
}

json to_json(const Away& away) {
  return {{"number", away.number},
          {"time", away.time},
          {"bytes", away.bytes},
          {"names", away.names},
          {"why", away.why}};
}

Away away_of(const json& object) {
  return {object.at("number").get<std::uint64_t>(), object.at("time").get<std::int64_t>(),
          object.at("bytes").get<std::uint64_t>(),
          object.at("names").get<std::vector<std::string>>(), object.at("why").get<std::string>()};
}

template <class T>
json list_of(const T& each_of) {
  json list = json::array();
  for (const auto& each : each_of) list.push_back(to_json(each));
  return list;
}

bool is_in(const Row& row, std::uint64_t generation) {
  return row.from <= generation && (row.until == 0 || generation < row.until);
}

bool is_of(const std::string& name, const std::string& checkpoint) {
  return name == checkpoint || name.starts_with(checkpoint + "/");
}

// How surely a number behind this word counts steps; 0: a number that is written to it is part of a
// name (resnet50).
int rank(std::string_view word) {
  constexpr std::array<std::string_view, 8> steps{"step",      "steps",      "iter", "iters",
                                                  "iteration", "iterations", "it",   "globalstep"};
  constexpr std::array<std::string_view, 6> saves{"checkpoint", "ckpt", "cp",
                                                  "chkpt",      "chk",  "save"};
  constexpr std::array<std::string_view, 9> others{"epoch", "ep",  "e",        "s", "weights",
                                                   "state", "run", "snapshot", "n"};
  const auto among = [word](const auto& words) {
    return std::ranges::find(words, word) != words.end();
  };
  return among(steps) ? 3 : among(saves) ? 2 : among(others) ? 1 : 0;
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
  return std::ranges::any_of(rows, [&](const Row& row) {
    const std::string other = checkpoint_of(row.name);
    return other != checkpoint && shape_of(other) == shape;
  });
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

std::optional<std::uint64_t> step_in(const std::string& name) {
  constexpr std::size_t longest = 15;
  constexpr const char* digits = "0123456789";
  const auto is_letter = [&name](std::size_t at) {
    return at < name.size() && std::isalpha(static_cast<unsigned char>(name[at])) != 0;
  };
  std::optional<std::uint64_t> best;
  int best_rank = 0;
  for (auto at = name.find_first_of(digits); at != name.npos;) {
    const auto end = std::min(name.find_first_not_of(digits, at), name.size());
    auto word_end = at;
    while (word_end > 0 && std::string_view("-_=.").find(name[word_end - 1]) != std::string::npos)
      --word_end;
    auto word = word_end;
    while (word > 0 && is_letter(word - 1)) --word;
    const std::string before = lower_case(name.substr(word, word_end - word));
    int surely = rank(before);
    // The last number of a name that says nothing of it counts, unless it belongs to a word.
    const bool last = end == name.size();
    if (surely < 2) surely = last && (surely > 0 || word_end < at || before.empty()) ? 1 : 0;
    const bool fits = end - at <= longest && !is_letter(end);  // 7b is a model's size
    if (fits && surely > 0 && surely >= best_rank) {
      best = std::stoull(name.substr(at, end - at));
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
  char text[40];
  std::snprintf(text, sizeof text, value < 10 ? "%.1f %s" : "%.0f %s", value, units[unit]);
  return text;
}

std::string sum_of_parts(const std::vector<Part>& parts) {
  std::string lines;
  for (const Part& part : parts)
    lines += part.name + '\n' + std::to_string(part.bytes) + '\n' + part.sum + '\n';
  return checkpoint::sum_of(lines);
}

std::string encode(const Record& record) {
  json object = {{"format", known_format},
                 {"watching", record.watching},
                 {"run", record.run},
                 {"step", record.step},
                 {"number", record.number},
                 {"tried", record.tried},
                 {"patterns", record.patterns},
                 {"left", record.left},
                 {"of_files", record.of_files},
                 {"generations", list_of(record.generations)},
                 {"rows", list_of(record.rows)},
                 {"away", list_of(record.away)},
                 {"restoring", record.restoring},
                 {"rewritten", record.rewritten},
                 {"usual", record.usual}};
  // A name need not be UTF-8: what cannot be said in JSON is not recorded (see Place).
  return checkpoint::seal(object);
}

Result<Record> decode(std::string_view bytes) {
  const auto damaged = [] { return failure("the record of finished checkpoints is damaged"); };
  const auto unsealed = checkpoint::unseal(bytes);
  if (!unsealed || !unsealed->is_object()) return damaged();
  const json& object = *unsealed;
  if (auto newer =
          wire::newer(object, "format", known_format, "the record of finished checkpoints")) {
    return tl::unexpected(std::move(*newer));
  }
  Record record;
  try {
    if (object.at("format").get<std::uint64_t>() != known_format) return damaged();
    record.watching = object.at("watching").get<bool>();
    record.run = object.at("run").get<std::uint64_t>();
    record.step = object.at("step").get<std::uint64_t>();
    record.number = object.at("number").get<std::uint64_t>();
    record.tried = object.at("tried").get<std::uint64_t>();
    record.left = object.at("left").get<bool>();
    record.of_files = object.at("of_files").get<bool>();
    record.patterns = object.at("patterns").get<std::string>();
    for (const json& each : object.at("generations"))
      record.generations.push_back(generation_of(each));
    for (const json& each : object.at("rows")) record.rows.push_back(row_of(each));
    for (const json& each : object.at("away")) record.away.push_back(away_of(each));
    record.restoring = object.at("restoring").get<bool>();
    record.rewritten = object.at("rewritten").get<std::set<std::string>>();
    record.usual = object.at("usual").get<std::deque<Shapes>>();
  } catch (const json::exception&) {
    return damaged();
  }
  const bool sorted = std::ranges::is_sorted(
      record.rows, {}, [](const Row& row) { return std::tie(row.name, row.from); });
  if (!sorted || !std::ranges::is_sorted(record.generations, {}, &Generation::number))
    return damaged();
  return record;
}

}  // namespace spotter::guard

#include "agent/guard/record.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "trainer/library/manifest.hpp"

namespace spotter::guard {
namespace {

using nlohmann::json;

constexpr std::uint64_t known_format = 1;
constexpr std::size_t gone_limit = 4096;  // remembered names of files that are no more
constexpr std::string_view sum_member = ",\"xxh3_128\":\"";
constexpr std::size_t sum_digits = 32;

json to_json(const Entry& entry) {
  json object = {{"name", entry.name}, {"bytes", entry.bytes}, {"mtime_ns", entry.mtime_ns},
                 {"sum", entry.sum},   {"step", entry.step},   {"run", entry.run}};
  if (!entry.kept.empty()) object["kept"] = entry.kept;
  if (entry.gone) object["gone"] = true;
  if (entry.restoring) object["restoring"] = true;
  return object;
}

Entry entry_of(const json& object) {
  return {object.at("name").get<std::string>(),
          object.at("bytes").get<std::uint64_t>(),
          object.at("mtime_ns").get<std::int64_t>(),
          object.at("sum").get<std::string>(),
          object.at("step").get<std::uint64_t>(),
          object.at("run").get<std::uint64_t>(),
          object.value("kept", ""),
          object.value("gone", false),
          object.value("restoring", false)};
}

}  // namespace

Entry* Record::find(std::string_view name) {
  const auto at = std::find_if(files.begin(), files.end(),
                               [&](const Entry& entry) { return entry.name == name; });
  return at == files.end() ? nullptr : &*at;
}

const Entry* Record::find(std::string_view name) const {
  return const_cast<Record*>(this)->find(name);
}

const Entry* Record::newest() const {
  const auto at =
      std::find_if(files.rbegin(), files.rend(), [](const Entry& entry) { return !entry.gone; });
  return at == files.rend() ? nullptr : &*at;
}

Entry& Record::finish(Entry entry) {
  const Entry* before = find(entry.name);
  if (before == nullptr || before->run == run) ++step;
  entry.step = step;
  entry.run = run;
  std::erase_if(files, [&](const Entry& other) { return other.name == entry.name; });
  const auto gone =
      std::count_if(files.begin(), files.end(), [](const Entry& other) { return other.gone; });
  if (static_cast<std::size_t>(gone) > gone_limit) {
    files.erase(
        std::find_if(files.begin(), files.end(), [](const Entry& other) { return other.gone; }));
  }
  files.push_back(std::move(entry));
  return files.back();
}

std::string encode(const Record& record) {
  json files = json::array();
  for (const Entry& entry : record.files) files.push_back(to_json(entry));
  const json object = {{"format", known_format},  {"watching", record.watching},
                       {"run", record.run},       {"step", record.step},
                       {"number", record.number}, {"files", std::move(files)}};
  // A file's name need not be UTF-8: what cannot be said in JSON is not watched (see Keeper).
  std::string text = object.dump(-1, ' ', false, json::error_handler_t::replace);
  text.pop_back();
  return text + std::string(sum_member) + checkpoint::sum_of(text) + "\"}\n";
}

wire::Decoded<Record> decode(std::string_view bytes) {
  const std::size_t tail = sum_member.size() + sum_digits + 3;
  const auto damaged = [] { return failure("the record of finished checkpoints is damaged"); };
  if (bytes.size() < tail) return damaged();
  const std::string_view body = bytes.substr(0, bytes.size() - tail);
  const std::string_view rest = bytes.substr(body.size());
  if (!rest.starts_with(sum_member) || !rest.ends_with("\"}\n")) return damaged();
  if (rest.substr(sum_member.size(), sum_digits) != checkpoint::sum_of(body)) return damaged();
  const json object = json::parse(std::string(body) + "}", nullptr, false);
  if (!object.is_object()) return damaged();
  if (auto newer =
          wire::newer(object, "format", known_format, "the record of finished checkpoints")) {
    return tl::unexpected(std::move(*newer));
  }
  Record record;
  try {
    if (object.at("format") != known_format) return damaged();
    record.watching = object.at("watching").get<bool>();
    record.run = object.at("run").get<std::uint64_t>();
    record.step = object.at("step").get<std::uint64_t>();
    record.number = object.at("number").get<std::uint64_t>();
    for (const json& entry : object.at("files")) record.files.push_back(entry_of(entry));
  } catch (const json::exception&) {
    return damaged();
  }
  return record;
}

}  // namespace spotter::guard

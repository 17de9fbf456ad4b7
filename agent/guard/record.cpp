#include "agent/guard/record.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "trainer/library/manifest.hpp"

namespace spotter::guard {
namespace {

using nlohmann::json;

constexpr std::uint64_t format_of_files = 1;
constexpr std::uint64_t known_format = 2;      // of folders, too
constexpr std::size_t folders_with_parts = 2;  // of a thousand ranks each would have 500 KB
constexpr std::size_t gone_limit = 4096;       // remembered names of files that are no more

json to_json(const Entry& entry) {
  json object = {{"name", entry.name}, {"bytes", entry.bytes}, {"mtime_ns", entry.mtime_ns},
                 {"sum", entry.sum},   {"step", entry.step},   {"run", entry.run}};
  if (!entry.kept.empty()) object["kept"] = entry.kept;
  if (entry.gone) object["gone"] = true;
  if (entry.restoring) object["restoring"] = true;
  if (!entry.folder) return object;
  object["look"] = entry.look;
  json parts = json::array();
  for (const Part& part : entry.parts) {
    parts.push_back({{"name", part.name},
                     {"bytes", part.bytes},
                     {"mtime_ns", part.mtime_ns},
                     {"sum", part.sum}});
  }
  object["parts"] = std::move(parts);
  return object;
}

std::vector<Part> parts_of(const json& object) {
  std::vector<Part> parts;
  for (const json& part : object.value("parts", json::array())) {
    parts.push_back({part.at("name").get<std::string>(), part.at("bytes").get<std::uint64_t>(),
                     part.at("mtime_ns").get<std::int64_t>(), part.at("sum").get<std::string>()});
  }
  return parts;
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
          object.value("restoring", false),
          object.contains("look"),
          object.value("look", ""),
          parts_of(object)};
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
  const Entry* newest = nullptr;
  for (const Entry& entry : files) {
    const bool later = newest == nullptr || !entry.folder || entry.step >= newest->step;
    if (!entry.gone && later) newest = &entry;
  }
  return newest;
}

const Entry* Record::last_folder() const {
  const auto at =
      std::find_if(files.rbegin(), files.rend(), [](const Entry& entry) { return entry.folder; });
  return at == files.rend() || at->run != run ? nullptr : &*at;
}

Entry& Record::finish(Entry entry, std::optional<std::uint64_t> number) {
  const Entry* before = find(entry.name);
  if (!number && (before == nullptr || before->run == run)) ++step;
  entry.step = number.value_or(step);
  step = std::max(step, entry.step);
  entry.run = run;
  std::erase_if(files, [&](const Entry& other) { return other.name == entry.name; });
  const auto gone =
      std::count_if(files.begin(), files.end(), [](const Entry& other) { return other.gone; });
  if (static_cast<std::size_t>(gone) > gone_limit) {
    files.erase(
        std::find_if(files.begin(), files.end(), [](const Entry& other) { return other.gone; }));
  }
  files.push_back(std::move(entry));
  std::size_t folders = 0;
  for (auto at = files.rbegin(); at != files.rend(); ++at) {
    if (at->folder && ++folders > folders_with_parts) at->parts.clear();
  }
  return files.back();
}

std::string sum_of_parts(const std::vector<Part>& parts) {
  std::string lines;
  for (const Part& part : parts)
    lines += part.name + '\n' + std::to_string(part.bytes) + '\n' + part.sum + '\n';
  return checkpoint::sum_of(lines);
}

std::string encode(const Record& record) {
  json files = json::array();
  for (const Entry& entry : record.files) files.push_back(to_json(entry));
  const bool folders =
      std::ranges::any_of(record.files, [](const Entry& entry) { return entry.folder; });
  json object = {{"format", folders ? known_format : format_of_files},
                 {"watching", record.watching},
                 {"run", record.run},
                 {"step", record.step},
                 {"number", record.number},
                 {"files", std::move(files)}};
  if (record.of_folders) object["of_folders"] = true;
  // A file's name need not be UTF-8: what cannot be said in JSON is not watched (see Keeper).
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
    const auto format = object.at("format").get<std::uint64_t>();
    if (format != format_of_files && format != known_format) return damaged();
    record.watching = object.at("watching").get<bool>();
    record.of_folders = object.value("of_folders", format == known_format);
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

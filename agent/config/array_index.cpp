#include "agent/config/array_index.hpp"

#include <algorithm>
#include <numeric>

#include "agent/config/channel.hpp"
#include "agent/config/parameters.hpp"

namespace spotter::sweep {
namespace {

struct Engine {
  const char* index;
  const char* first;  // what the index counts from; empty: 0
  const char* step;
  const char* count;
};
constexpr Engine engines[] = {{"AWS_BATCH_JOB_ARRAY_INDEX", "", "", "AWS_BATCH_JOB_ARRAY_SIZE"},
                              {"SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_MIN",
                               "SLURM_ARRAY_TASK_STEP", "SLURM_ARRAY_TASK_COUNT"},
                              {"JOB_COMPLETION_INDEX", "", "", ""}};

Result<std::optional<ArrayIndex>> index_of_engine(const Variable& variable) {
  for (const auto& engine : engines) {
    const std::string text = variable(engine.index);
    if (text.empty()) continue;
    const auto number = wire::parse_count(text);
    if (!number) return failure(std::string(engine.index) + "='" + text + "' is no number");
    ArrayIndex found{engine.index, *number, {}};
    const auto count = wire::parse_count(variable(engine.count));
    const auto first = wire::parse_count(variable(engine.first)).value_or(0);
    const auto step =
        std::max<std::uint64_t>(1, wire::parse_count(variable(engine.step)).value_or(1));
    if (count && *number >= first && (*number - first) / step < *count)
      found.part = {(*number - first) / step, *count};
    return found;
  }
  return std::nullopt;
}

// Adds "17-19" or "3"; false: it is not beyond all earlier ones.
bool add_range(std::string_view text, IndexList& list) {
  const auto dash = text.find('-');
  const auto first = wire::parse_count(text.substr(0, dash));
  const auto last = dash == text.npos ? first : wire::parse_count(text.substr(dash + 1));
  if (!first || !last || *first > *last || *last >= list.of) return false;
  if (!list.indices.empty() && *first <= list.indices.back()) return false;
  for (std::uint64_t index = *first; index <= *last; ++index) list.indices.push_back(index);
  return true;
}

}  // namespace

Result<std::optional<ArrayIndex>> array_index(const Variable& variable) {
  auto found = index_of_engine(variable);
  const std::string text = variable(indices_variable);
  if (!found || text.empty()) return found;
  const auto list = TRY(behind(std::string(indices_variable), parse_index_list(text)));
  const std::uint64_t place = *found ? (*found)->index : 0;
  if (place >= list.indices.size() || (!*found && list.indices.size() > 1))
    return failure(std::string(indices_variable) + "=" + text + " has no set for this job (" +
                   (*found ? (*found)->variable + "=" + std::to_string(place) : "no array") + ")");
  const std::uint64_t index = list.indices[place];
  return ArrayIndex{indices_variable, index, ArrayIndex::Part{index, list.of}};
}

IndexList all_indices(std::uint64_t sets) {
  IndexList list{std::vector<std::uint64_t>(sets), sets};
  std::iota(list.indices.begin(), list.indices.end(), 0);
  return list;
}

std::string to_text(const IndexList& list) {
  std::string text;
  for (std::size_t at = 0; at < list.indices.size();) {
    std::size_t end = at + 1;
    while (end < list.indices.size() && list.indices[end] == list.indices[end - 1] + 1) ++end;
    text += (text.empty() ? "" : ",") + std::to_string(list.indices[at]);
    if (end - at > 1) text += '-' + std::to_string(list.indices[end - 1]);
    at = end;
  }
  return text + '/' + std::to_string(list.of);
}

Result<IndexList> parse_index_list(std::string_view text) {
  const auto wrong = failure("'" + std::string(text) + "' is no list of indices, as in 3,17-19/50");
  const auto slash = text.find('/');
  if (slash == text.npos) return wrong;
  const auto of = wire::parse_count(text.substr(slash + 1));
  if (!of || *of == 0 || *of > most_sets) return wrong;
  IndexList list{{}, *of};
  std::string_view ranges = text.substr(0, slash);
  while (true) {
    const auto comma = ranges.find(',');
    if (!add_range(ranges.substr(0, comma), list)) return wrong;
    if (comma == ranges.npos) return list;
    ranges.remove_prefix(comma + 1);
  }
}

}  // namespace spotter::sweep

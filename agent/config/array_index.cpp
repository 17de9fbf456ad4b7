#include "agent/config/array_index.hpp"

#include <algorithm>

#include "agent/config/channel.hpp"
#include "agent/config/index_list.hpp"

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

}  // namespace

Result<std::optional<ArrayIndex>> array_index(const Variable& variable) {
  auto found = index_of_engine(variable);
  const std::string text = variable(indices_variable);
  if (!found || text.empty()) return found;
  const auto list = parse_index_list(text);
  if (!list) return failure(std::string(indices_variable) + ": " + list.error().message);
  const std::uint64_t place = *found ? (*found)->index : 0;
  if (place >= list->indices.size() || (!*found && list->indices.size() > 1))
    return failure(std::string(indices_variable) + "=" + text + " has no set for this job (" +
                   (*found ? (*found)->variable + "=" + std::to_string(place) : "no array") + ")");
  const std::uint64_t index = list->indices[place];
  return ArrayIndex{indices_variable, index, ArrayIndex::Part{index, list->of}};
}

}  // namespace spotter::sweep

#include "agent/tools/gang/gang_copies.hpp"

#include <unistd.h>

#include <string_view>

#include "agent/base/number_text.hpp"
#include "agent/gang/record.hpp"
#include "agent/io/files.hpp"

namespace spotter::command {
namespace {

std::string file_in(const std::string& folder) { return folder + "/newest"; }

}  // namespace

GangCopy newest_copy(const std::string& folder) {
  if (folder.empty()) return {};
  const auto text = io::read_file(file_in(folder), 256);
  if (!text) return {};
  const auto space = text->find(' ');
  if (space == text->npos) return {};
  const auto step = number_of_text<std::int64_t>(std::string_view(*text).substr(0, space));
  const auto machines = number_of_text<std::uint64_t>(std::string_view(*text).substr(space + 1));
  const bool possible = step && machines && *step >= 0 && *step <= gang::most_steps &&
                        *machines <= gang::most_members;
  return possible ? GangCopy{*step, *machines} : GangCopy{};
}

void forget_newest_copy(const std::string& folder) {
  if (!folder.empty()) ::unlink(file_in(folder).c_str());
}

}  // namespace spotter::command

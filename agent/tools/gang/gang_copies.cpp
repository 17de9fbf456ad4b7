#include "agent/tools/gang/gang_copies.hpp"

#include <unistd.h>

#include <charconv>

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
  GangCopy copy;
  const char* const end = text->data() + text->size();
  const auto step = std::from_chars(text->data(), end, copy.step);
  if (step.ec != std::errc{} || step.ptr == end || *step.ptr != ' ') return {};
  const auto machines = std::from_chars(step.ptr + 1, end, copy.machines);
  const bool whole = machines.ec == std::errc{} && machines.ptr == end;
  const bool possible =
      copy.step >= 0 && copy.step <= gang::most_steps && copy.machines <= gang::most_members;
  return whole && possible ? copy : GangCopy{};
}

void forget_newest_copy(const std::string& folder) {
  if (!folder.empty()) ::unlink(file_in(folder).c_str());
}

}  // namespace spotter::command

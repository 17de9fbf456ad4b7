#include "agent/tools/explain.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>

#include "agent/base/exit_status.hpp"
#include "agent/wire/events.hpp"

namespace spotter::command {
namespace {

int list(const std::vector<wire::Explanation>& all) {
  std::size_t widest = 0;
  for (const wire::Explanation& it : all) widest = std::max(widest, it.name.size());
  for (const wire::Explanation& it : all)
    std::printf("%-*s  %s\n", static_cast<int>(widest), std::string(it.name).c_str(),
                it.subject.c_str());
  return 0;
}

// The events whose name or subject contains the word.
std::string near(const std::vector<wire::Explanation>& all, const std::string& word) {
  std::string names;
  for (const wire::Explanation& it : all)
    if (it.name.find(word) != it.name.npos || it.subject.find(word) != it.subject.npos)
      names += (names.empty() ? "" : ", ") + std::string(it.name);
  return names;
}

int explain(const std::string& name) {
  const auto all = wire::explanations();
  if (name.empty()) return list(all);
  const auto found = std::ranges::find(all, name, &wire::Explanation::name);
  if (found != all.end()) {
    std::printf("%s: %s\n\n%s\n", name.c_str(), found->subject.c_str(), found->text.c_str());
    return 0;
  }
  const std::string others = near(all, name);
  std::fprintf(stderr, "spotter explain: there is no event '%s': %s\n", name.c_str(),
               others.empty() ? "`spotter explain` lists them" : ("is it " + others + "?").c_str());
  return wrong_input;
}

}  // namespace

void add_explain(CLI::App& app, int& status) {
  auto* command =
      app.add_subcommand("explain", "What a kind of journal event means, and what to do about it");
  auto name = std::make_shared<std::string>();
  command->add_option("name", *name,
                      "interruption-notice, no-volume, ...; without one, all are listed");
  command->callback([name, &status] { status = explain(*name); });
}

}  // namespace spotter::command

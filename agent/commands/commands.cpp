#include "agent/commands/commands.hpp"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <sstream>

#include "agent/config/run.hpp"
#include "agent/config/values.hpp"
#include "agent/io/child.hpp"
#include "agent/io/log.hpp"
#include "agent/wire/events.hpp"

namespace spotter::command {
namespace {

std::vector<const CLI::App*> commands_of(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

const CLI::App* find_command(const CLI::App& app, const std::string& name) {
  const auto all = commands_of(app);
  const auto found = std::ranges::find(all, name, &CLI::App::get_name);
  return found == all.end() ? nullptr : *found;
}

bool takes_value(const CLI::Option& option) { return option.get_items_expected_max() > 0; }

// The choices of "TEXT:{one,other}", one a line.
std::string choices(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const auto open = type.find('{');
  const auto close = type.find('}');
  if (open == type.npos || close == type.npos) return "";
  std::string text = type.substr(open + 1, close - open - 1) + "\n";
  std::ranges::replace(text, ',', '\n');
  return text;
}

// Makes a line plain text for mdoc(7): no word is a macro, no dot a request.
std::string plain(const std::string& text) {
  std::string safe;
  for (const char each : text) {
    if (each == '\\')
      safe += "\\e";
    else if (each == '-')
      safe += "\\-";
    else
      safe += each;
  }
  return "\\&" + safe + "\n";
}

// Each sentence on its own line, as mdoc(7) expects.
std::string sentences(std::string_view line) {
  std::string text;
  for (auto stop = line.find(". "); stop != line.npos; stop = line.find(". ")) {
    text += plain(std::string(line.substr(0, stop + 1)));
    line.remove_prefix(stop + 2);
  }
  return text + plain(std::string(line));
}

void append_option(std::string& page, const CLI::Option& option) {
  page += ".It ";
  if (option.nonpositional()) {
    page += "Fl -" + option.get_lnames().front();
    if (takes_value(option)) page += " Ar VALUE";
  } else {
    page += "Ar " + option.get_name(true);
  }
  page += "\n" + plain(option.get_description() + ".");
  if (const auto all = choices(option); !all.empty()) {
    std::string line = "One of: " + all.substr(0, all.size() - 1) + ".";
    for (auto at = line.find('\n'); at != line.npos; at = line.find('\n', at))
      line.replace(at, 1, ", ");
    page += plain(line);
  }
  if (const auto set = option.get_default_str(); !set.empty())
    page += plain("Default: " + set + ".");
  if (option.get_required()) page += plain("Required.");
}

void append_command(std::string& page, const CLI::App& command, const std::string& name) {
  page += ".Ss " + name + "\n" + plain(command.get_description() + ".");
  const auto options = command.get_options([&](const CLI::Option* option) {
    return option != command.get_help_ptr() &&
           (!option->nonpositional() || !option->get_lnames().empty());
  });
  if (!options.empty()) {
    page += ".Bl -tag -width Ds\n";
    for (const auto* option : options) append_option(page, *option);
    page += ".El\n";
  }
  for (const auto* each : commands_of(command))
    append_command(page, *each, name + " " + each->get_name());
}

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

constexpr std::array topics = {"job.yaml", "trainer", "storage", "data",   "sweep",
                               "gang",     "aws",     "events",  "service"};

// A package has the pages where man looks; a checkout has them in two folders, the wheel in one.
int show_page(const std::string& topic) {
  if (std::ranges::find(topics, topic) == topics.end()) {
    std::printf("spotter help TOPIC shows a page of the manual: %s\n", joined(topics).c_str());
    return topic.empty() ? 0 : wrong_input;
  }
  std::string name = "spotter-" + topic + ".7";
  if (topic == "job.yaml") name = "job.yaml.5";
  if (topic == "service") name = "spotter.service.8";
  const auto built = std::filesystem::path(own_program()).parent_path().parent_path();
  const auto checkout = built.parent_path().parent_path();
  std::string page = name.substr(0, name.rfind('.'));
  std::error_code error;
  for (const auto& folder :
       {checkout / "scripts/packaging/manual", built / "manual", built / "lib/spotter/manual"})
    if (std::filesystem::exists(folder / name, error)) page = folder / name;
  std::fflush(nullptr);
  io::Program({"man", page.starts_with('/') ? "-l" : "--", page}).execute_from_path();
  return io::complain("help", "man is not installed: the page is " + page);
}

}  // namespace

bool agrees(const char* question) {
  if (::isatty(STDIN_FILENO) == 0) return false;
  std::printf("%s [y/N] ", question);
  std::fflush(stdout);
  std::string line;
  return std::getline(std::cin, line) && (line == "y" || line == "yes");
}

Result<config::Job> job_here(const std::string& file) {
  auto job = config::load_job(file, config::Environment::of_process());
  if (job) return *std::move(job);
  std::fputs(config::describe(job.error(), file).c_str(), stderr);
  return mistake();
}

std::string completions(const CLI::App& app, const std::vector<std::string>& words) {
  const CLI::App* command = &app;
  const CLI::Option* awaits = nullptr;  // the option whose value is next
  for (const auto& word : words) {
    if (word == "--") return "";
    if (awaits) {
      awaits = nullptr;
    } else if (word.starts_with("--")) {
      const CLI::Option* option = command->get_option_no_throw(word);
      if (option && takes_value(*option)) awaits = option;
    } else if (const auto* below = find_command(*command, word)) {
      command = below;
    }
  }
  if (awaits) return choices(*awaits);
  std::string text;
  for (const auto* each : commands_of(*command)) text += each->get_name() + "\n";
  for (const auto* option : command->get_options()) {
    if (option->get_group().empty()) continue;  // the program's own
    if (!option->nonpositional()) text += choices(*option);
    for (const auto& name : option->get_lnames()) text += "--" + name + "\n";
  }
  return text;
}

std::string wrong_command(const CLI::App& app, const std::vector<std::string>& words) {
  const CLI::App* above = &app;
  for (const auto& word : words) {
    if (above->get_require_subcommand_min() == 0 || word.starts_with("-")) return "";
    if (const auto* command = find_command(*above, word)) {
      above = command;
      continue;
    }
    std::vector<std::string_view> names;
    for (const auto* each : commands_of(*above)) names.push_back(each->get_name());
    const auto meant = config::nearest(word, names);
    const std::string of = above == &app ? "" : above->get_name() + " ";
    return "there is no command '" + of + word + "'" +
           (meant.empty() ? "" : "; did you mean '" + of + std::string(meant) + "'?") +
           " (`spotter " + of + "--help` lists all)";
  }
  return "";
}

std::string manual_of_events() {
  std::string page;
  for (const wire::Explanation& each : wire::explanations()) {
    page += ".Ss " + std::string(each.name) + "\n" + plain(each.subject + ".") + ".Pp\n";
    std::istringstream lines(each.text);
    bool literal = false, apart = false;
    for (std::string line; std::getline(lines, line);) {
      if (line.empty()) {
        apart = true;
        continue;
      }
      const bool command = line.starts_with("  ");
      if (command != literal) page += command ? ".Bd -literal -offset indent\n" : ".Ed\n";
      if (apart && !command) page += ".Pp\n";
      page += command ? plain(line) : sentences(line);
      literal = command;
      apart = false;
    }
    if (literal) page += ".Ed\n";
  }
  return page;
}

std::string manual_of_commands(const CLI::App& app) {
  std::string page;
  for (const auto* each : commands_of(app)) append_command(page, *each, each->get_name());
  return page;
}

void add_explain(CLI::App& app, int& status) {
  auto* command =
      app.add_subcommand("explain", "What a kind of journal event means, and what to do about it");
  auto name = std::make_shared<std::string>();
  command->add_option("name", *name,
                      "interruption-notice, no-volume, ...; without one, all are listed");
  command->callback([name, &status] { status = explain(*name); });
}

void add_help(CLI::App& app, int& status) {
  auto* command = app.add_subcommand("help", "Shows a page of the manual");
  auto topic = std::make_shared<std::string>();
  command->add_option("topic", *topic, "job.yaml, trainer, storage, ...; without one, their list");
  command->callback([topic, &status] { status = show_page(*topic); });
}

}  // namespace spotter::command

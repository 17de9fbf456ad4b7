#include "agent/commands/commands.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>

#include "agent/config/run.hpp"
#include "agent/config/values.hpp"
#include "agent/io/child.hpp"
#include "agent/io/log.hpp"
#include "agent/wire/events.hpp"

namespace spotter::command {
namespace {

using OrderedJson = nlohmann::ordered_json;

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

OrderedJson options_of(const CLI::App& command) {
  OrderedJson all = OrderedJson::array();
  for (const auto* option : command.get_options([&](const CLI::Option* it) {
         return it != command.get_help_ptr() && (!it->nonpositional() || !it->get_lnames().empty());
       }))
    all.push_back(
        {{"name", option->nonpositional() ? option->get_lnames().front() : option->get_name(true)},
         {"flag", option->nonpositional()},
         {"takes_value", takes_value(*option)},
         {"text", option->get_description()},
         {"choices", choices(*option)},
         {"default", option->get_default_str()},
         {"required", option->get_required()}});
  return all;
}

OrderedJson described(const CLI::App& app) {
  OrderedJson all = OrderedJson::array();
  for (const auto* each : commands_of(app))
    all.push_back({{"name", each->get_name()},
                   {"text", each->get_description()},
                   {"options", options_of(*each)},
                   {"commands", described(*each)}});
  return all;
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

Window window() {
  Window found;
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0) return found;
  if (size.ws_row > 0) found.rows = size.ws_row;
  if (size.ws_col > 0) found.columns = size.ws_col;
  return found;
}

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

std::string manual_of(const CLI::App& app) {
  OrderedJson events = OrderedJson::array();
  for (const wire::Explanation& it : wire::explanations())
    events.push_back({{"name", it.name}, {"subject", it.subject}, {"text", it.text}});
  return OrderedJson{{"commands", described(app)}, {"events", events}}.dump();
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

// What the program's own table of commands tells others, so that nothing is written down twice: a
// shell that completes a line (scripts/packaging/completion), and the manual
// (scripts/packaging/manual).
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace spotter {

// What may come next, a line each, after these words: of a command line without the program and the
// word that is being typed. Empty: a file, or what is not ours to know (behind `--`).
std::string completions(const CLI::App& app, const std::vector<std::string>& words);

// Each kind of event of the journal, as subsections of mdoc(7).
std::string manual_of_events();

// Each command with its options, as subsections of mdoc(7).
std::string manual_of_commands(const CLI::App& app);

}  // namespace spotter

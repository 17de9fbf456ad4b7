#include "tests/faults/writers.hpp"

#include <fcntl.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "agent/data/catalogue.hpp"
#include "agent/guard/record.hpp"
#include "agent/host/records.hpp"
#include "agent/host/share.hpp"
#include "agent/io/files.hpp"
#include "agent/supervise/run_directory.hpp"
#include "agent/sweep/summary.hpp"

namespace spotter::test {
namespace {

namespace fs = std::filesystem;
namespace host = act::host;

constexpr int lines_each = 50;  // of a generation

// "g LINE" of generations one after the other, each whole and none twice.
std::string lines_of(int generation) {
  std::string text;
  for (int i = 0; i < lines_each; ++i)
    text += std::to_string(generation) + " " + std::to_string(i) + "\n";
  return text;
}

std::string content(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

// A cut leaves lines each of which is a part of one, never parts of two.
bool is_of_one_line(const std::string& line) {
  static const std::string all = "\n" + lines_of(1) + lines_of(2) + lines_of(3) + lines_of(4);
  std::istringstream parts(line);
  for (std::string part; std::getline(parts, part, '\0');)
    if (all.find(part) == std::string::npos) return false;
  return true;
}

// Reads a file that is appended to: whole lines in their order. A line that a cut has torn has no
// end.
int newest_lines(const fs::path& path) {
  std::istringstream all(content(path));
  int next = 0;
  for (std::string line; std::getline(all, line);) {
    const std::string wanted =
        std::to_string(next / lines_each + 1) + " " + std::to_string(next % lines_each);
    if (line == wanted) ++next;
    if (!is_of_one_line(line)) return -1;
  }
  return next / lines_each;
}

bool has_each_line_once(const fs::path& path, int generation) {
  std::string all;
  for (int each = 1; each <= generation; ++each) all += lines_of(each);
  return content(path) == all;
}

Writer ledger() {
  return {"ledger",
          [](const fs::path& folder, int generation) {
            return host::write_ledger(folder,
                                      {.ledger = {.starts_without_progress =
                                                      static_cast<std::uint32_t>(generation)}})
                .has_value();
          },
          [](const fs::path& folder) {
            const auto read = host::read_ledger(folder);
            return read && read->warning.empty()
                       ? static_cast<int>(read->file.ledger.starts_without_progress)
                       : -1;
          }};
}

Writer curve() {
  return {
      "curve",
      [](const fs::path& folder, int generation) {
        wire::Curve curve;
        for (int step = 1; step <= generation; ++step)
          curve.add({.step = static_cast<std::uint64_t>(step), .loss = 1.0, .time = 1.0 * step});
        return host::keep_metrics(folder / "metrics.jsonl", to_lines(curve), 0).has_value();
      },
      [](const fs::path& folder) {
        const auto last = sweep::read_metrics(folder / "metrics.jsonl").last();
        return last ? static_cast<int>(last->step) : 0;
      }};
}

Writer history() {
  return {
      "history",
      [](const fs::path& folder, int generation) {
        return host::keep_lines(folder, host::history_name, lines_of(generation)).has_value();
      },
      [](const fs::path& folder) { return newest_lines(folder / ".spotter" / host::history_name); },
      true,
      [](const fs::path& folder, int generation) {
        return has_each_line_once(folder / ".spotter" / host::history_name, generation);
      }};
}

// The trainer appends a generation and it is kept; again where that failed before.
Writer log() {
  return {"log",
          [](const fs::path& folder, int generation) {
            const fs::path local = beside(folder) / "local.log";
            const fs::path said = beside(folder) / "said";  // which generation it printed last
            if (content(said) != std::to_string(generation)) {
              std::ofstream(said) << generation;
              std::ofstream(local, std::ios::app) << lines_of(generation);
            }
            return host::keep_log(local, folder / "kept.log").has_value();
          },
          [](const fs::path& folder) { return newest_lines(folder / "kept.log"); }, true,
          [](const fs::path& folder, int generation) {
            return has_each_line_once(folder / "kept.log", generation);
          }};
}

Writer record() {
  return {"guard record",
          [](const fs::path& folder, int generation) {
            guard::Record record;
            record.number = static_cast<std::uint64_t>(generation);
            return io::atomic_write(folder / "guard.json", guard::encode(record), 0644).has_value();
          },
          [](const fs::path& folder) {
            const std::string text = content(folder / "guard.json");
            if (text.empty()) return fs::exists(folder / "guard.json") ? -1 : 0;
            const auto record = guard::decode(text);
            return record ? static_cast<int>(record->number) : -1;
          }};
}

Writer listing() {
  static const auto channel = *wire::parse_channel("train=s3://bucket/p");
  return {"frozen listing",
          [](const fs::path& folder, int generation) {
            data::Listing all{"p", {}};
            for (int i = 0; i < 3000; ++i)
              all.entries.push_back({.key = "p/" + std::to_string(i),
                                     .size = static_cast<std::uint64_t>(generation),
                                     .etag = "e"});
            return data::write_listing(folder / "train.listing", channel, all).has_value();
          },
          [](const fs::path& folder) {
            const auto read = data::read_listing(folder / "train.listing", channel);
            if (!read) return -1;
            if (!*read) return 0;
            return (*read)->entries.size() == 3000 ? static_cast<int>((*read)->entries[0].size)
                                                   : -1;
          }};
}

std::string content_of(int generation) {
  return std::to_string(generation) + std::string(5000, ' ') + "\n";
}

// Writes into the run directory: how the trainer ended must survive a power cut, as the next agent
// reads it once more; other files need not.
Writer of_run_directory(const char* title, bool durable) {
  return {title,
          [=](const fs::path& folder, int generation) {
            const supervise::RunDirectory directory(folder);
            const std::string text = content_of(generation);
            return (durable ? directory.write("ended.json", text)
                            : directory.replace("ended.json", text))
                .has_value();
          },
          [=](const fs::path& folder) {
            const std::string text = content(folder / "ended.json");
            if (text.empty()) return fs::exists(folder / "ended.json") ? -1 : 0;
            const int generation = std::atoi(text.c_str());
            return text == content_of(generation) ? generation : -1;
          },
          durable};
}

// Writes into the run directory what need not survive a power cut.
Writer status() {
  return {"status",
          [](const fs::path& folder, int generation) {
            const std::string path = folder / "status.json";
            return io::replace_file(path, content_of(generation)).has_value();
          },
          [](const fs::path& folder) {
            const std::string text = content(folder / "status.json");
            if (text.empty()) return fs::exists(folder / "status.json") ? -1 : 0;
            return text.ends_with(" \n") && text.size() > 5000 ? std::stoi(text) : -1;
          },
          false};
}

}  // namespace

std::vector<Writer> writers() {
  return {ledger(),
          curve(),
          history(),
          log(),
          record(),
          listing(),
          status(),
          of_run_directory("run directory", true),
          of_run_directory("run directory for a while", false)};
}

fs::path beside(const fs::path& folder) { return folder.string() + ".local"; }

void prepare(const fs::path& folder) {
  fs::create_directories(folder / ".spotter");
  fs::remove_all(beside(folder));
  fs::create_directories(beside(folder));
}

}  // namespace spotter::test

#include "agent/history_file.hpp"

#include <fcntl.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "agent/supervise/run_directory.hpp"

namespace spotter {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view lines_name = "history.jsonl", kept_name = "history.kept";

constexpr std::size_t most_bytes = 1U << 20;
constexpr std::size_t looked_back = 64U << 10;  // more than a day, as a rule
constexpr std::size_t most_news = 64U << 10;
constexpr double same_boot = 60;  // seconds: clocks are set

std::string part_of(const std::string& path, std::size_t from, std::size_t most) {
  std::ifstream file(path, std::ios::binary);
  std::string bytes(most, '\0');
  file.seekg(static_cast<std::streamoff>(from));
  file.read(bytes.data(), static_cast<std::streamsize>(most));
  bytes.resize(static_cast<std::size_t>(std::max<std::streamsize>(0, file.gcount())));
  return bytes;
}

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// A part of an object's name.
std::string plain(std::string name) {
  std::ranges::replace_if(
      name,
      [](unsigned char each) { return std::isalnum(each) == 0 && each != '-' && each != '.'; },
      '-');
  return name;
}

}  // namespace

HistoryFile::HistoryFile(const std::string& run_directory)
    : directory_(run_directory),
      path_(directory_.file(lines_name)),
      kept_path_(directory_.file(kept_name)),
      curve_path_(directory_.file("curve.jsonl")) {}

bool HistoryFile::goes_on(const wire::Moment& began) {
  const auto first = wire::parse_history(first_line(path_)).moments;
  if (first.empty() || first[0].what != "began" || first[0].instance != began.instance ||
      first[0].text("job") != began.text("job"))
    return false;
  const double then = first[0].number("booted").value_or(0);
  if (std::abs(then - began.number("booted").value_or(0)) > same_boot) return false;
  std::error_code error;
  size_ = fs::file_size(path_, error);
  std::ifstream(kept_path_) >> kept_;
  kept_ = std::min(kept_, size_);
  segment_ = std::to_string(std::llround(first[0].time * 1000)) + "-" + plain(began.instance);
  return !error;
}

std::vector<wire::Moment> HistoryFile::open(const wire::Moment& began) {
  if (goes_on(began)) {
    const std::size_t from = size_ > looked_back ? size_ - looked_back : 0;
    return wire::parse_history(part_of(path_, from, looked_back)).moments;
  }
  size_ = kept_ = 0;
  segment_ = std::to_string(std::llround(began.time * 1000)) + "-" + plain(began.instance);
  for (const std::string& old : {path_, kept_path_, curve_path_}) std::remove(old.c_str());
  append(began);
  return {};
}

void HistoryFile::append(const wire::Moment& moment) {
  const std::string line = to_line(moment);
  (void)directory_.open_file(lines_name, O_WRONLY | O_CREAT);  // its owner's alone from the first
  std::ofstream file(path_, std::ios::binary | std::ios::app);
  if (!file.write(line.data(), static_cast<std::streamsize>(line.size())).flush()) {
    file.close();
    std::error_code ignored;
    fs::resize_file(path_, size_, ignored);  // no half a line before the next one
    return;
  }
  file.close();
  size_ += line.size();
  if (size_ > most_bytes) drop_oldest();
}

// `began` says whose they are, so it stays the first.
void HistoryFile::drop_oldest() {
  const std::string began = first_line(path_) + "\n";
  std::string rest = part_of(path_, size_ - most_bytes / 2, most_bytes / 2);
  rest.erase(0, rest.find('\n') + 1);
  const std::size_t dropped = size_ - rest.size();
  if (!directory_.replace(lines_name, began + rest)) return;
  kept_ = kept_ > dropped ? kept_ - dropped + began.size() : began.size();
  size_ = began.size() + rest.size();
  remember_kept();
}

std::string HistoryFile::news() const {
  if (kept_ >= size_) return {};
  std::string lines = part_of(path_, kept_, std::min(size_ - kept_, most_news));
  lines.resize(lines.rfind('\n') + 1);
  return lines;
}

void HistoryFile::kept(std::size_t bytes) {
  kept_ = std::min(kept_ + bytes, size_);
  remember_kept();
}

void HistoryFile::remember_kept() const {
  (void)directory_.replace(kept_name, std::to_string(kept_) + "\n");
}

}  // namespace spotter

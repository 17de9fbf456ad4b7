#include "agent/service/observe/history_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>

#include "agent/io/files.hpp"

namespace spotter {
namespace {

constexpr std::string_view lines_name = "history.jsonl", kept_name = "history.kept";
constexpr std::string_view curve_name = "curve.jsonl";  // the learning curve: observers.cpp

constexpr std::size_t most_bytes = 1U << 20;
constexpr std::size_t looked_back = 64U << 10;  // usually more than a day
constexpr std::size_t most_news = 64U << 10;
constexpr std::size_t most_unwritten = 64U << 10;
constexpr double same_boot = 60;  // seconds: clocks get adjusted

std::string part_of(const std::string& path, std::size_t from, std::size_t most) {
  const io::Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  return file ? io::read_at(file.get(), from, most) : "";
}

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// Makes a name fit to be a part of an object's name.
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
      kept_path_(directory_.file(kept_name)) {}

bool HistoryFile::goes_on(const wire::HistoryEntry& began) {
  const auto first = wire::parse_history(first_line(path_)).entries;
  if (first.empty() || first[0].what != "began" || first[0].instance != began.instance ||
      first[0].text("job") != began.text("job"))
    return false;
  const double then = first[0].number("booted").value_or(0);
  if (std::abs(then - began.number("booted").value_or(0)) > same_boot) return false;
  std::error_code error;
  const std::size_t size = fs::file_size(path_, error);
  if (error) return false;
  // The end of the last whole line: an agent may have died while it wrote one.
  const std::size_t from = size > looked_back ? size - looked_back : 0;
  const std::string end = part_of(path_, from, looked_back);
  if (end.size() != size - from) return false;
  size_ = from + end.rfind('\n') + 1;
  std::ifstream(kept_path_) >> kept_;
  kept_ = std::min(kept_, size_);
  segment_ = std::to_string(std::llround(first[0].time * 1000)) + "-" + plain(began.instance);
  return true;
}

std::vector<wire::HistoryEntry> HistoryFile::open(const wire::HistoryEntry& began) {
  begun_ = goes_on(began);
  if (begun_) {
    const std::size_t from = size_ > looked_back ? size_ - looked_back : 0;
    return wire::parse_history(part_of(path_, from, looked_back)).entries;
  }
  size_ = kept_ = 0;
  segment_ = std::to_string(std::llround(began.time * 1000)) + "-" + plain(began.instance);
  append(began);
  return {};
}

void HistoryFile::append(const wire::HistoryEntry& entry) {
  if (unwritten_.size() < most_unwritten) unwritten_ += to_line(entry);
  if (!(begun_ ? append_to_file() : begin_file())) return;
  size_ += unwritten_.size();
  unwritten_.clear();
  if (size_ > most_bytes) drop_oldest();
}

// Removes the other two first, as they belong to the old file.
bool HistoryFile::begin_file() {
  if (!directory_.remove(kept_name) || !directory_.remove(curve_name)) return false;
  if (std::rename(path_.c_str(), (path_ + ".old").c_str()) != 0 && errno != ENOENT) return false;
  begun_ = directory_.replace(lines_name, unwritten_).has_value();
  return begun_;
}

bool HistoryFile::append_to_file() {
  const auto file = directory_.open_file(lines_name, O_WRONLY | O_APPEND | O_CREAT);
  struct stat status {};
  if (!file || ::fstat(file->get(), &status) != 0) return false;
  // Removes a part of a line that could not be removed when its write failed.
  const auto size = static_cast<off_t>(size_);
  if (status.st_size > size && ::ftruncate(file->get(), size) != 0) return false;
  if (io::write_all(file->get(), unwritten_)) return true;
  (void)!::ftruncate(file->get(), size);
  return false;
}

// The first line identifies the file, so it stays. Writes the position first: an agent that dies in
// between stores some lines twice, but loses none.
void HistoryFile::drop_oldest() {
  const std::string began = first_line(path_) + "\n";
  std::string rest = part_of(path_, size_ - most_bytes / 2, most_bytes / 2);
  if (began.size() < 2 || rest.size() != most_bytes / 2) return;  // it could not be read
  rest.erase(0, rest.find('\n') + 1);
  const std::size_t dropped = size_ - rest.size();
  const std::size_t kept = kept_ > dropped ? kept_ - dropped + began.size() : began.size();
  if (!remember_kept(kept) || !directory_.replace(lines_name, began + rest)) return;
  kept_ = kept;
  size_ = began.size() + rest.size();
}

std::string HistoryFile::news() const {
  if (kept_ >= size_) return {};
  std::string lines = part_of(path_, kept_, std::min(size_ - kept_, most_news));
  lines.resize(lines.rfind('\n') + 1);
  return lines;
}

void HistoryFile::kept(std::size_t bytes) {
  kept_ = std::min(kept_ + bytes, size_);
  (void)remember_kept(kept_);
}

bool HistoryFile::remember_kept(std::size_t bytes) const {
  return directory_.replace(kept_name, std::to_string(bytes) + "\n").has_value();
}

}  // namespace spotter

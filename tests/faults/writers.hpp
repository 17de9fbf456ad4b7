// Each file that must outlive a fault, as those write and read it who do so in production.
#pragma once

#include <filesystem>
#include <functional>
#include <ostream>
#include <string>
#include <vector>

namespace spotter::test {

struct Writer {
  std::string name;
  // Puts this generation (1, 2, ...) below the folder; false: it says that it failed.
  std::function<bool(const std::filesystem::path&, int)> write;
  // The newest generation that a reader finds whole; 0: none; -1: something that nobody wrote.
  std::function<int(const std::filesystem::path&)> read;
  bool durable = true;  // a generation that was written is there after a power cut
  // After faults, not cuts: generations up to this one are there, none in part and none twice.
  std::function<bool(const std::filesystem::path&, int)> is_exact = {};
};
std::vector<Writer> writers();
inline std::ostream& operator<<(std::ostream& out, const Writer& it) { return out << it.name; }

// The folder for the machine's own files: not on the disk that fails.
std::filesystem::path beside(const std::filesystem::path& folder);
// Makes what lies there beforehand.
void prepare(const std::filesystem::path& folder);

}  // namespace spotter::test

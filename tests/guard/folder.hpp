// A storage with a checkpoint folder, and files of the formats that trainers write. Removed after
// each test.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "agent/guard/keeper.hpp"

namespace spotter::guard {

class Folder : public testing::Test {
 protected:
  explicit Folder(const char* above = "/tmp");
  ~Folder() override;

  std::filesystem::path path(const std::string& name) const { return mount_ / "ckpt" / name; }
  void write(const std::string& name, std::string_view bytes) const;
  std::string read(const std::string& name) const;
  bool exists(const std::string& name) const { return std::filesystem::exists(path(name)); }
  void remove(const std::string& name) const { std::filesystem::remove(path(name)); }
  std::size_t set_aside() const;  // how many files

  Keeper keeper() const;
  // Does what the guard does while a trainer runs.
  static void record(Keeper& keeper, const std::string& name);
  // Does what another process does at the next start.
  Settled settle() const;

  Where where() const { return {mount_, "ckpt", "*.pt *.h5 *.bin"}; }
  std::filesystem::path mount_;
};

// The same as a later version writes it: with members that nobody knows, its sum right.
std::string newer_record(const std::string& ours);

std::string number(std::uint64_t value, int bytes);  // little-endian
// A zip with one stored entry, as torch.save writes it (but for its padding).
std::string zip(const std::string& content);
// A superblock of version 0 and `content`; its end of file is where it ends.
std::string hdf5(const std::string& content);

}  // namespace spotter::guard

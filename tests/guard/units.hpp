// Folders as the frameworks write them, step by step, in the order of their own sources.
#pragma once

#include <functional>

#include "tests/guard/folder.hpp"

namespace spotter::guard {

std::string safetensors(const std::string& content);

class Units : public Folder {
 protected:
  using Step = std::function<void()>;
  using Steps = std::vector<Step>;

  Where where() const { return {mount_, "ckpt", "", false, "checkpoint-*", "log*/?.csv"}; }
  Keeper keeper() const;
  Settled settle() const;
  void rename(const std::string& from, const std::string& to) const;

  // Each writes one file, or a half of one, renames, or removes. The last one completes the folder.
  Steps transformers(const std::string& name, bool sharded = false) const;
  Steps distributed(const std::string& name) const;
  Steps accelerate(const std::string& name) const;
  static void run(const Steps& steps, std::size_t count = SIZE_MAX);

 private:
  void both_halves(Steps& steps, const std::string& name, const std::string& bytes) const;
};

}  // namespace spotter::guard

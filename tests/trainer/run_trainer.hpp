// The real spotter-train as a child process, in an environment of its own.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <vector>

namespace spotter::test {

class Trainer {
 public:
  // Output goes to `output`, appended. Does not outlive this object.
  Trainer(const std::vector<std::string>& arguments, const std::filesystem::path& output,
          const std::vector<std::string>& environment = {});
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;
  void signal(int number) const;
  // The exit status, or minus the signal that ended it.
  int wait();

 private:
  pid_t child_ = -1;
};

}  // namespace spotter::test

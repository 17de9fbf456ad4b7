// A run directory and real processes in it; nothing of either is left after a test, also not after
// a failed one.
#pragma once

#include <gtest/gtest.h>

#include "agent/supervise/client.hpp"
#include "agent/supervise/processes.hpp"
#include "agent/supervise/supervisor.hpp"

namespace spotter::supervise {

class Stage : public testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;

  Spec spec(const std::string& command) const;  // as the current user, logging to log_file()
  std::string log_file() const { return directory_ + "/trainer.log"; }
  std::string log() const;
  std::string path(const std::string& name) const { return directory_ + "/" + name; }
  const std::string& directory() const { return directory_; }

  Record started(const Spec& what);  // fails the test when it does not start
  Ended wait_for_end();              // fails the test after 20 s
  bool nothing_there() const {
    const auto now = look(directory_);
    return now && !now->held && !now->ended && !now->record;
  }
  // Polls; the tests' only clock is the limit after which they fail.
  template <class Condition>
  bool eventually(Condition condition) {
    for (int round = 0; round < 2000; ++round) {
      if (condition()) return true;
      pause_briefly();
    }
    return condition();
  }
  bool says(const std::string& text);  // the trainer's log, eventually

 private:
  static void pause_briefly();
  std::string directory_;
};

std::string current_user();
std::string read_file(const std::string& path);
bool runs(int pid);

}  // namespace spotter::supervise

// A trainer that may run for as long as somebody renews a file.
#include <csignal>
#include <filesystem>

#include "agent/supervise/run_directory.hpp"
#include "tests/supervise/stage.hpp"

namespace spotter::supervise {
namespace {

class LeaseStory : public Stage {
 protected:
  std::string file() const { return path("lease"); }
  void grant(std::int64_t milliseconds) {
    ASSERT_TRUE(write_lease(file(), boottime_milliseconds() + milliseconds));
  }
  Spec leased(const std::string& command) const {
    Spec what = spec(command);
    what.lease = file();
    return what;
  }
};
constexpr std::int64_t hour = 3'600'000;

TEST_F(LeaseStory, ATrainerIsKilledWithAllItsChildrenWhenItIsOver) {
  grant(300);
  started(leased("trap '' TERM; sleep 1000 & echo up; wait"));
  const Ended end = wait_for_end();
  EXPECT_EQ(end.signal, SIGKILL);
  EXPECT_TRUE(end.left_over.empty());
  EXPECT_TRUE(says("the lease is over"));
}

TEST_F(LeaseStory, ARenewedOneLetsItGoOn) {
  const std::int64_t first_end = boottime_milliseconds() + 4000;
  ASSERT_TRUE(write_lease(file(), first_end));
  started(leased("echo up; while [ ! -e " + path("go") + " ]; do sleep 0.05; done; exit 7"));
  ASSERT_TRUE(says("up"));
  grant(hour);
  ASSERT_TRUE(eventually([&] { return boottime_milliseconds() > first_end + 1000; }));
  std::filesystem::create_directory(path("go"));
  EXPECT_EQ(wait_for_end().exit_code, 7);
}

TEST_F(LeaseStory, OneThatIsOverOrMissingStartsNothing) {
  grant(-1);
  const auto late = start(directory(), leased("true"));
  ASSERT_FALSE(late);
  EXPECT_NE(late.error().message.find("the lease in " + file() + " is over"), std::string::npos);
  std::filesystem::remove(file());
  EXPECT_FALSE(start(directory(), leased("true")));
  EXPECT_FALSE(start(directory(), leased("true"))) << "and leaves nothing that would allow it";
  grant(hour);
  started(leased("exit 3"));
  EXPECT_EQ(wait_for_end().exit_code, 3);
}

}  // namespace
}  // namespace spotter::supervise

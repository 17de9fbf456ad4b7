// A gang's metrics as Prometheus sees them.
#include <gtest/gtest.h>
#include <stdlib.h>

#include "agent/io/files.hpp"
#include "agent/service/observe/monitor.hpp"

namespace spotter {
namespace {

TEST(AGangsMetrics, HaveTheNewestCopyInMemoryWhereThereIsOne) {
  char name[] = "/tmp/spotter-exported-XXXXXX";
  const std::string folder = ::mkdtemp(name);
  config::Job job;
  job.prometheus.folder = folder;
  asio::io_context context;
  decide::State state;
  state.facts.trainer.running = true;
  const act::CallTallies calls;
  Monitor monitor(context, job, {[&] { return &state; }, [&] { return &calls; }});
  const Time now{Duration(1'000'000)};
  const auto exported = [&](const wire::GangReport& gang) {
    monitor.on_gang(gang, now);
    monitor.update(now, true);
    std::string all;
    for (const auto& each : std::filesystem::directory_iterator(folder))
      all += io::read_file(each.path(), 1U << 20).value_or("");
    return all;
  };
  wire::GangReport gang{.members = 3, .machines = 3, .round = 1, .leader = "i-1"};
  std::string text = exported(gang);
  EXPECT_NE(text.find("\nspotter_gang_members 3\n"), text.npos) << text;
  EXPECT_EQ(text.find("gang_copy"), text.npos) << text;
  gang.copy_step = 120;
  gang.copy_machines = 2;
  text = exported(gang);
  EXPECT_NE(text.find("\nspotter_gang_copy_step 120\n"), text.npos) << text;
  EXPECT_NE(text.find("\nspotter_gang_copy_machines 2\n"), text.npos) << text;
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace spotter

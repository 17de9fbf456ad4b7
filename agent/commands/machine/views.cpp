#include <fcntl.h>
#include <sched.h>
#include <systemd/sd-daemon.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdint>
#include <cstring>

#include "agent/commands/machine/machine.hpp"
#include "agent/host/mounts.hpp"
#include "agent/host/views.hpp"
#include "agent/io/complain.hpp"
#include "agent/io/files.hpp"

namespace spotter::command {
namespace {

constexpr std::uint64_t patience = 20'000'000;  // microseconds

// Even a command with a plus sign has a namespace of its own, whose mounts end with it.
bool enter_namespace_of_process_1() {
  const io::Descriptor mounts(::open("/proc/1/ns/mnt", O_RDONLY | O_CLOEXEC));
  return mounts && ::setns(mounts.get(), CLONE_NEWNS) == 0;
}

int mount(const act::host::Views& views) {
  const auto mounted = act::host::mount_views(views);
  if (!mounted) return io::complain("views", mounted.error().message);
  for (std::size_t i = 0; i < mounted->size(); ++i) {
    const std::string words = "FDSTORE=1\nFDNAME=" + views.names[i];
    const int view = (*mounted)[i].get();
    if (::sd_pid_notify_with_fds(0, 0, words.c_str(), &view, 1) <= 0)
      return io::complain("views", "process 1 does not take the view of " + views.names[i]);
  }
  // Process 1 starts the main process as soon as this one has ended: it must have them by then.
  if (::sd_notify_barrier(0, patience) <= 0)
    return io::complain("views", "process 1 does not answer");
  return 0;
}

}  // namespace

int views(int argc, char** argv) {
  CLI::App app("Mounts the trainer's views of data", "spotter views");
  act::host::Views views;
  bool detach = false;
  app.add_option("--home", views.home)->required();
  app.add_option("--folder", views.folder)->required();
  app.add_option("--user", views.user);
  app.add_flag("--detach", detach);
  app.add_option("names", views.names);
  if (const auto over = parsed(app, argc, argv)) return *over;
  io::take_usual_umask();
  if (!enter_namespace_of_process_1())
    return io::complain("views", std::string("process 1's mounts: ") + std::strerror(errno));
  if (!detach) return mount(views);
  act::host::detach_views(views.home / views.folder);
  return 0;
}

}  // namespace spotter::command

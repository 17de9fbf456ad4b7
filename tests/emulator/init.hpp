// The first process of an instance: `spotter-emulator instance-init KIND PROGRAM [ORDER...]`, with
// a socket to the emulator as descriptor 3 and the instance's environment and console. KIND:
//   root: pid 1 of new pid, mount and network namespaces; when it dies the kernel kills the rest.
//   whole: as root, and it ends with its program (container_kind.hpp).
//   isolated: pid 1 of the namespaces of isolation.hpp, as the orders say.
//   user: a child subreaper; when the emulator is gone it kills all its descendants.
// Conversation: init sends one byte, 'R' (with two listening sockets as SCM_RIGHTS in root mode:
// metadata, API) or 'E' and a reason; the emulator answers 'G', and the program (the user data)
// runs. From then on they speak of jobs (containers.hpp).
#pragma once

#include <sys/types.h>

#include <array>
#include <string>
#include <vector>

#include "agent/base/result.hpp"

namespace spotter::emulator {

constexpr int init_socket = 3;

// REQUIRES: argv[1] is "instance-init". Answers the exit status.
int instance_init(int argc, char** argv);

struct InitProcess {
  pid_t pid = -1;
  int socket = -1;                          // closing it is the end of the instance in user mode
  std::array<int, 2> listeners = {-1, -1};  // metadata, API; root mode only
};
struct InitOptions {
  bool namespaces = true;
  bool ends_with_program = false;
  std::string program;  // path of a script
  std::string folder;   // working directory
  std::string console;  // path; output is appended
  std::vector<std::string> environment;
  std::vector<std::string> isolation = {};  // isolation.hpp; empty: it is not isolated
};
// Starts an init and waits, at most ten seconds, until it is ready; the user data does not run yet.
// The caller closes the descriptors and reaps the process.
Result<InitProcess> start_init(const InitOptions& options);

}  // namespace spotter::emulator

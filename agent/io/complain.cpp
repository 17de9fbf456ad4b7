#include "agent/io/complain.hpp"

#include <cstdio>

namespace spotter::io {

int complain(const char* command, const std::string& what, int status) {
  std::fprintf(stderr, "spotter %s: %s\n", command, what.c_str());
  return status;
}

}  // namespace spotter::io

#include "agent/io/memory.hpp"

#include <malloc.h>
#include <sys/mman.h>

#include <cinttypes>
#include <cstdio>
#include <fstream>
#include <string>

namespace spotter::io {

void return_free_memory() {
  ::malloc_trim(0);
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    std::uintptr_t begin = 0, end = 0;
    char kind[5] = "";
    if (std::sscanf(line.c_str(), "%" SCNxPTR "-%" SCNxPTR " %4s", &begin, &end, kind) != 3)
      continue;
    // Code alone: it is as the file has it. What is only read may have been written by the loader.
    if (std::string(kind) != "r-xp" || line.find(" /") == line.npos) continue;
    ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
  }
}

}  // namespace spotter::io

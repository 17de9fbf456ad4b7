#include "agent/io/kernel.hpp"

#include <sys/mman.h>
#include <sys/random.h>
#ifndef SPOTTER_CLIENT
#include <malloc.h>
#endif

#include <cinttypes>
#include <cstdio>
#include <fstream>

#include "agent/base/text.hpp"

namespace spotter::io {

std::string random_hex(std::size_t digits) {
  std::string bytes(digits / 2, '\0');
  // It gives all of so few bytes or, before the kernel has any, waits.
  if (::getentropy(bytes.data(), bytes.size()) != 0) return {};
  return hexadecimal(bytes);
}

#ifndef SPOTTER_CLIENT
void return_free_memory() {
  ::malloc_trim(0);
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    std::uintptr_t begin = 0, end = 0;
    char kind[5] = "";
    if (std::sscanf(line.c_str(), "%" SCNxPTR "-%" SCNxPTR " %4s", &begin, &end, kind) != 3)
      continue;
    // Code alone: it is as the file has it. Read-only pages may have been written by the loader.
    if (std::string(kind) != "r-xp" || line.find(" /") == line.npos) continue;
    ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
  }
}
#endif

}  // namespace spotter::io

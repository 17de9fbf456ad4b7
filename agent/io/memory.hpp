// The memory of a process that stays for days, after a busy start.
#pragma once

namespace spotter::io {

// Gives back what is free of the heap, and unmaps the pages of programs and libraries, which are
// the kernel's anyway: those that are run from now on come back one by one, without I/O as a rule.
void return_free_memory();

}  // namespace spotter::io

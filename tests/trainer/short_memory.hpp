// Allocations that fail when the test says so: operator new is replaced for the whole program that
// links short_memory.cpp.
#pragma once

namespace spotter::test {

// So many more allocations of this thread succeed, then one fails. After it, and by default, it is
// negative: none fails.
extern thread_local int allocations_left;

}  // namespace spotter::test

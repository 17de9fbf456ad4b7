// What nobody can guess.
#pragma once

#include <cstddef>
#include <string>

namespace spotter::io {

// So many hexadecimal digits (an even number, 512 at most) of the kernel's random bytes:
// getrandom(2). Empty: it gives none.
std::string random_hex(std::size_t digits);

}  // namespace spotter::io

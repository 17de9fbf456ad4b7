// Owns a file descriptor.
#pragma once

#include "agent/io/descriptor.hpp"

namespace spotter::act::host {

using Fd = io::Descriptor;

}  // namespace spotter::act::host

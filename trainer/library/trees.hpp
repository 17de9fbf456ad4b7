// A file or a folder with all that is in it. No link is followed.
//
// In the place of std::filesystem::remove_all() and the directory iterators, which libspotter and
// its programs must not call: PyTorch's libtorch.so exports its own, which call through a null
// pointer, and a program that is linked with it before libstdc++ gets those. tests/trainer
// (symbols_test.py, other_filesystem_test.cpp) finds who calls them.
#pragma once

#include <cstdint>
#include <filesystem>

#include "agent/base/result.hpp"

namespace spotter::checkpoint {

// Removes it. False: something is left, and errno says why the first was not removed; the rest is
// gone as far as it could be. True where nothing is there.
bool remove_tree(const std::filesystem::path& path);

// Makes a file durable, or a folder with all in it, and its name. Returns the bytes of the files.
Result<std::uint64_t> make_durable(const std::filesystem::path& path);

}  // namespace spotter::checkpoint

// `spotter-train predict MODEL`: what a trained network takes images for, and what it sees.
#pragma once

#include <span>
#include <string>

#include "agent/base/result.hpp"
#include "trainer/reference/dataset.hpp"

namespace spotter::train {

// Arguments behind `predict`. Exit status: 0; 1 failed; 2 bad usage; what to say was said.
int predict(int count, char** arguments);

// An image as lines of text, two rows of pixels a line. In grey: half blocks for what is at least
// half bright. In colour, with `colours`: as a terminal of 24 bits shows them, else as in grey.
std::string picture(const Shape& shape, std::span<const std::uint8_t> pixels, bool colours);

// A grey image in Netpbm's binary format (P5, at most 255): one example, with no label (0). The
// error says how to make a good one.
Result<Examples> read_pgm(std::string_view bytes, const Shape& shape);

}  // namespace spotter::train

// The description in a file of weights, so that whoever has only the file can use it.
#pragma once

#include "trainer/reference/dataset.hpp"
#include "trainer/reference/parameters.hpp"

namespace spotter::train {

struct Description {
  Parameters parameters;
  Shape shape;
};

// `parameters` and `input` as JSON: {"channels", "height", "width", "divide_by"}: images are bytes,
// divided by that. `format` is what Hugging Face's readers ask for.
Metadata describe(const Description& description);

}  // namespace spotter::train

#include "trainer/reference/description.hpp"

#include <nlohmann/json.hpp>

namespace spotter::train {

Metadata describe(const Description& description) {
  const nlohmann::json input = {{"channels", description.shape.channels},
                                {"height", description.shape.height},
                                {"width", description.shape.width},
                                {"divide_by", kBrightest}};
  return {{"format", "pt"},
          {"input", input.dump()},
          {"parameters", to_json(description.parameters).dump()}};
}

}  // namespace spotter::train

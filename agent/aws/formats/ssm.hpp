// Parameter Store's GetParameter (JSON 1.1). No I/O.
// Source: https://docs.aws.amazon.com/systems-manager/latest/APIReference/API_GetParameter.html
#pragma once

#include <string>
#include <string_view>

#include "agent/base/result.hpp"

namespace spotter::wire {

std::string encode_get_parameter(std::string_view name);  // with decryption
// The parameter's value. An error's message never contains a part of it.
Result<std::string> decode_get_parameter(std::string_view json);

}  // namespace spotter::wire

// ~/.aws/credentials and ~/.aws/config. Private to aws/settings.
// Source: https://docs.aws.amazon.com/sdkref/latest/guide/file-format.html
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "agent/aws/settings/environment.hpp"

namespace spotter::act {

using Profile = std::map<std::string, std::string>;

// The settings of [section]; nested settings (indented lines) are skipped.
Profile parse_profile(std::string_view text, std::string_view section);

// The profile that AWS_PROFILE names ("default"); empty when there is no such file or profile.
Profile credentials_profile(const Environment& environment);
Profile config_profile(const Environment& environment);

}  // namespace spotter::act

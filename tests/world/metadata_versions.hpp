// The metadata service's dated versions: each shows the categories that there were at its time.
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/instancedata-data-categories.html
#pragma once

#include <string>
#include <string_view>

namespace spotter::world {

// One a line, as `GET /` lists them; the last is `latest`.
std::string metadata_versions();
bool is_metadata_version(std::string_view version);
// The version with which the document at a path below /latest/ came. Versions compare as texts.
std::string_view released_with(std::string_view path);

}  // namespace spotter::world

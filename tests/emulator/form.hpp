// application/x-www-form-urlencoded and percent-encoding (RFC 3986, the WHATWG URL standard).
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace spotter::emulator {

using FormFields = std::vector<std::pair<std::string, std::string>>;

enum class Plus { Literal, IsSpace };

// A '%' that two hexadecimal digits do not follow stays as it is.
std::string percent_decode(std::string_view text, Plus plus);

// Everything but A-Z a-z 0-9 - . _ ~ and the characters of `keep` becomes %XX.
std::string percent_encode(std::string_view text, std::string_view keep = {});

// "a=1&b=&c" -> (a,1) (b,"") (c,""), in the order sent; empty parts are left out.
FormFields parse_form(std::string_view text, Plus plus);

}  // namespace spotter::emulator

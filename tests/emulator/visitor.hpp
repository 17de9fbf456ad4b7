// Whom the emulator answers, whatever is asked: programs of this machine and of its instances, and
// the page that it serves itself. A browser's page reaches loopback, too: under its own name, if
// its DNS names this machine (rebinding), and across origins.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "tests/emulator/http.hpp"

namespace spotter::emulator {

// Addresses and names alone, without a look at the port, which no page can choose apart from where
// it connects to. `local`: the address that the connection has come to.
bool is_served_name(std::string_view host, std::string_view local);

// Why the request is not answered; nothing: it is.
std::optional<std::string> refusal_of_visitor(const HttpRequest& request, std::string_view local);

}  // namespace spotter::emulator

// One setting of a unit as a D-Bus message. Internal to systemd.
#pragma once

#include <systemd/sd-bus.h>

#include "agent/systemd/settings.hpp"

namespace spotter::units {

// Appends "(sv)". Returns a negative errno: -EINVAL for an unsupported name or value.
// https://www.freedesktop.org/software/systemd/man/latest/org.freedesktop.systemd1.html
int append(sd_bus_message* message, const Setting& setting);

}  // namespace spotter::units

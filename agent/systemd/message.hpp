// A setting as D-Bus carries it. Internal to units.
#pragma once

#include <systemd/sd-bus.h>

#include "agent/systemd/settings.hpp"

namespace spotter::units {

// Appends "(sv)". A negative errno: -EINVAL for a name or value that is not known here.
// https://www.freedesktop.org/software/systemd/man/latest/org.freedesktop.systemd1.html
int append(sd_bus_message* message, const Setting& setting);

}  // namespace spotter::units

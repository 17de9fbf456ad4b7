# What makes one binary run on Debian 12, Ubuntu 22.04 and Amazon Linux 2023: of shared libraries it
# needs only those that all three have, in versions that all three have. The rest is linked in:
# yaml-cpp, pugixml (pugixml::static), xxHash, spdlog and fmt. `scripts/check symbols` looks.
find_library(YAML_CPP_ARCHIVE libyaml-cpp.a REQUIRED)
find_library(XXHASH_ARCHIVE libxxhash.a REQUIRED)

# Whoever writes to spdlog links this. The definitions are those of its own package.
spotter_library(spotter_spdlog ${PROJECT_SOURCE_DIR}/agent/io/spdlog.cpp LINK Threads::Threads)
target_compile_definitions(spotter_spdlog PUBLIC
  $<TARGET_PROPERTY:spdlog::spdlog,INTERFACE_COMPILE_DEFINITIONS>
  $<TARGET_PROPERTY:fmt::fmt,INTERFACE_COMPILE_DEFINITIONS>)

# What makes one binary run on Debian 12, Ubuntu 22.04, Amazon Linux 2023 and what is newer: of
# shared libraries it needs only those that all have, in versions that all have. The rest is linked
# in: yaml-cpp, pugixml (pugixml::static), xxHash, spdlog and fmt, libfuse3 (libfuse3.so.3 on Debian
# 12, .4 on 13). `scripts/check symbols` looks; tests/e2e/stories/distributions.py tries.
if(SPOTTER_CLIENT)  # it stays where it was built, beside what it was built with
  find_library(YAML_CPP_ARCHIVE yaml-cpp REQUIRED)
  find_library(XXHASH_ARCHIVE xxhash REQUIRED)
  set(PUGIXML pugixml::pugixml)
  add_library(spotter_spdlog INTERFACE)
  target_link_libraries(spotter_spdlog INTERFACE spdlog::spdlog Threads::Threads)
  return()
endif()
find_library(YAML_CPP_ARCHIVE libyaml-cpp.a REQUIRED)
find_library(XXHASH_ARCHIVE libxxhash.a REQUIRED)
set(PUGIXML pugixml::static)

# Whoever writes to spdlog links this. The definitions are those of its own package.
spotter_library(spotter_spdlog ${PROJECT_SOURCE_DIR}/agent/io/spdlog.cpp LINK Threads::Threads)
target_compile_definitions(spotter_spdlog PUBLIC
  $<TARGET_PROPERTY:spdlog::spdlog,INTERFACE_COMPILE_DEFINITIONS>
  $<TARGET_PROPERTY:fmt::fmt,INTERFACE_COMPILE_DEFINITIONS>)

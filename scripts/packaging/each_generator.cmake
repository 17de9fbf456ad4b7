# Other distributions get the agent, and the emulator in an archive; what stands on libraries of
# Debian's stays with Debian.
if(CPACK_GENERATOR STREQUAL TGZ)
  list(FILTER CPACK_COMPONENTS_ALL INCLUDE REGEX "^(agent|emulator)$")
elseif(NOT CPACK_GENERATOR STREQUAL DEB)
  set(CPACK_COMPONENTS_ALL agent)
else()  # what apt's search shows is each package's own
  set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "")
endif()

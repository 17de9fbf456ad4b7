# Other distributions get the agent; what stands on libraries of Debian's stays with Debian.
if(NOT CPACK_GENERATOR STREQUAL DEB)
  set(CPACK_COMPONENTS_ALL agent)
endif()

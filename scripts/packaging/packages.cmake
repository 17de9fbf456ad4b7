# The settings of CPack: a .deb for each component; of the agent an .rpm and a .tar.gz, too.
set(CPACK_PACKAGE_VENDOR "Spotter")
set(CPACK_PACKAGE_CONTACT "Spotter's maintainers <maintainers@users.noreply.github.com>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Carries a deep-learning training job across spot instances")
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES TRUE)
set(CPACK_PROJECT_CONFIG_FILE ${CMAKE_CURRENT_SOURCE_DIR}/each_generator.cmake)

set(CPACK_DEB_COMPONENT_INSTALL TRUE)
set(CPACK_DEBIAN_ENABLE_COMPONENT_DEPENDS FALSE)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS TRUE)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION TRUE)
set(CPACK_COMPONENTS_ALL "")
foreach(pair ${components})
  string(REPLACE ":" ";" pair ${pair})
  list(GET pair 0 component)
  list(GET pair 1 package)
  string(TOUPPER ${component} upper)
  list(APPEND CPACK_COMPONENTS_ALL ${component})
  set(CPACK_DEBIAN_${upper}_PACKAGE_NAME ${package})
  set(copyright ${PROJECT_SOURCE_DIR}/LICENSE)
  if(component STREQUAL agent)  # libfuse3 is linked in, and its licence wants to be there
    file(READ ${copyright} license)
    set(copyright ${CMAKE_BINARY_DIR}/copyright)
    configure_file(copyright.in ${copyright} @ONLY)
    install(FILES /usr/share/common-licenses/LGPL-2.1 DESTINATION ${data}/doc/${package}
            COMPONENT ${component})
  endif()
  install(FILES ${copyright} RENAME copyright
          DESTINATION ${data}/doc/${package} COMPONENT ${component})
endforeach()

set(CPACK_COMPONENT_AGENT_DESCRIPTION
"Carries a deep-learning training job across spot instances
An agent on each instance sees the interruption notice, has the trainer checkpoint, releases the volume,
and on the next instance, in whatever zone, brings the volume there and goes on.")
set(CPACK_COMPONENT_EMULATOR_DESCRIPTION
"EC2, spot interruptions, IMDS, S3 and AWS Batch on this machine
A fake AWS for whoever tests programs against spot interruptions: it launches instances, announces
their end in their metadata as AWS does, and ends them. aws and boto3 work against it unchanged.")
set(CPACK_COMPONENT_LIBRARY_DESCRIPTION
"Checkpoints, progress and the notice for trainers
Atomic checkpoints at the speed of memory, for C and, by 'import spotter', for Python.")
set(CPACK_COMPONENT_TRAINER_DESCRIPTION
"The reference trainer
A perceptron and residual networks on MNIST and CIFAR-10, in C++ on libtorch; it ends with the
same bits however often it was interrupted.")

# sysusers.d and tmpfiles.d are for the packages' scripts; a container needs no whole systemd.
set(CPACK_DEBIAN_AGENT_PACKAGE_DEPENDS
    "systemd | systemd-standalone-sysusers, systemd | systemd-standalone-tmpfiles, ca-certificates")
# Code is cloned, volumes get a file system, channels may be mounts; the metadata service is kept
# from the trainer by `ip` and `nft`.
set(CPACK_DEBIAN_AGENT_PACKAGE_RECOMMENDS
    "git, xfsprogs, e2fsprogs, fuse3, iproute2, nftables, systemd")
set(CPACK_DEBIAN_AGENT_PACKAGE_SUGGESTS "python3, sshfs, nfs-common")
set(CPACK_DEBIAN_EMULATOR_PACKAGE_SECTION devel)
set(CPACK_DEBIAN_EMULATOR_PACKAGE_SUGGESTS "awscli, python3-boto3, systemd-container")
set(CPACK_DEBIAN_LIBRARY_PACKAGE_RECOMMENDS "python3")
set(CPACK_DEBIAN_LIBRARY_PACKAGE_GENERATE_SHLIBS TRUE)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_CONTROL_EXTRA ${CMAKE_CURRENT_SOURCE_DIR}/debian/library/prerm)
set(CPACK_DEBIAN_TRAINER_PACKAGE_RECOMMENDS "libopenblas0-pthread")  # else ten times slower
foreach(script postinst prerm postrm)
  list(APPEND CPACK_DEBIAN_AGENT_PACKAGE_CONTROL_EXTRA
       ${CMAKE_CURRENT_SOURCE_DIR}/debian/${script})
endforeach()

# The .rpm is for Amazon Linux 2023 and what is at least as new as Fedora 36.
set(CPACK_RPM_COMPONENT_INSTALL TRUE)
set(CPACK_RPM_MAIN_COMPONENT agent)
set(CPACK_RPM_FILE_NAME RPM-DEFAULT)
set(CPACK_RPM_AGENT_PACKAGE_NAME spotter)
set(CPACK_RPM_PACKAGE_NAME spotter)
set(CPACK_RPM_PACKAGE_LICENSE "MIT AND LGPL-2.1-only")
set(CPACK_RPM_PACKAGE_AUTOREQ TRUE)
# Only who builds a trainer in C needs pkg-config.
set(CPACK_RPM_SPEC_MORE_DEFINE "%global __requires_exclude pkg-config
%global __provides_exclude_from ^/usr/lib/spotter/
%define _build_id_links none
%define _buildhost localhost
%define use_source_date_epoch_as_buildtime 1
%define clamp_mtime_to_source_date_epoch 1")
# dnf installs nothing that is only suggested, and Amazon Linux's image has neither git nor xfsprogs.
set(CPACK_RPM_AGENT_PACKAGE_REQUIRES "systemd, ca-certificates, git-core, xfsprogs, iproute")
set(CPACK_RPM_AGENT_PACKAGE_SUGGESTS "fuse3")
set(CPACK_RPM_POST_INSTALL_SCRIPT_FILE ${CMAKE_CURRENT_SOURCE_DIR}/rpm/post)
set(CPACK_RPM_PRE_UNINSTALL_SCRIPT_FILE ${CMAKE_CURRENT_SOURCE_DIR}/rpm/preun)
set(CPACK_RPM_POST_UNINSTALL_SCRIPT_FILE ${CMAKE_CURRENT_SOURCE_DIR}/rpm/postun)
set(CPACK_RPM_EXCLUDE_FROM_AUTO_FILELIST_ADDITION
    /usr/lib/systemd /usr/lib/systemd/system /usr/lib/sysusers.d /usr/lib/tmpfiles.d
    /usr/share/man /usr/share/man/man1 /usr/share/man/man5 /usr/share/man/man7 /usr/share/man/man8
    /usr/share/bash-completion /usr/share/bash-completion/completions /usr/share/zsh
    /usr/share/zsh/vendor-completions)

# tar -xzf FILE -C /
set(CPACK_ARCHIVE_COMPONENT_INSTALL TRUE)
set(CPACK_COMPONENT_INCLUDE_TOPLEVEL_DIRECTORY FALSE)
set(CPACK_ARCHIVE_AGENT_FILE_NAME
    spotter-${PROJECT_VERSION}-linux-${CMAKE_SYSTEM_PROCESSOR})
set(CPACK_ARCHIVE_EMULATOR_FILE_NAME
    spotter-emulator-${PROJECT_VERSION}-linux-${CMAKE_SYSTEM_PROCESSOR})
include(CPack)

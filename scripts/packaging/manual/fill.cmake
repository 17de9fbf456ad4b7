# cmake -DPROGRAM=spotter -DFROM=spotter.1.in -DTO=spotter.1 -P fill.cmake
execute_process(COMMAND ${PROGRAM} manual OUTPUT_VARIABLE COMMANDS COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${PROGRAM} manual events OUTPUT_VARIABLE EVENTS COMMAND_ERROR_IS_FATAL ANY)
configure_file(${FROM} ${TO} @ONLY)

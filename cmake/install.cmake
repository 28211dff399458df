# What `cmake --install` puts where: the libraries, the headers, the man pages, a pkg-config file
# and a CMake package.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(COIR_PACKAGE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/coir)
set(COIR_GDB_DIR ${CMAKE_INSTALL_DATADIR}/gdb/auto-load${CMAKE_INSTALL_FULL_LIBDIR})
install(CODE "set(COIR_BUILD [[${CMAKE_BINARY_DIR}]])
    set(COIR_FOLDERS [[${COIR_PACKAGE_DIR};${CMAKE_INSTALL_BINDIR};${CMAKE_INSTALL_LIBDIR}/pkgconfig;${CMAKE_INSTALL_INCLUDEDIR}/coir;${CMAKE_INSTALL_DATADIR}/coir/bpftrace;${CMAKE_INSTALL_DATADIR}/coir;${COIR_GDB_DIR};${CMAKE_INSTALL_MANDIR}/man1;${CMAKE_INSTALL_MANDIR}/man3;${CMAKE_INSTALL_MANDIR}/man7]])")
install(SCRIPT cmake/record.cmake)

install(TARGETS coir coir_shared EXPORT coir-targets INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
if(COIR_TLS)
    install(TARGETS coir_tls coir_tls_shared EXPORT coir-tls-targets INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
    install(EXPORT coir-tls-targets NAMESPACE coir:: DESTINATION ${COIR_PACKAGE_DIR})
    install(DIRECTORY include/ TYPE INCLUDE)
else()
    install(DIRECTORY include/ TYPE INCLUDE PATTERN tls.h EXCLUDE)
endif()

install(EXPORT coir-targets NAMESPACE coir:: DESTINATION ${COIR_PACKAGE_DIR})
set(COIR_COMPATIBILITY SameMajorVersion)
if(PROJECT_VERSION_MAJOR EQUAL 0)
    set(COIR_COMPATIBILITY SameMinorVersion)
endif()
write_basic_package_version_file(${PROJECT_BINARY_DIR}/coir-config-version.cmake COMPATIBILITY ${COIR_COMPATIBILITY})
configure_package_config_file(cmake/coir-config.cmake.in coir-config.cmake INSTALL_DESTINATION ${COIR_PACKAGE_DIR})
install(FILES ${PROJECT_BINARY_DIR}/coir-config.cmake ${PROJECT_BINARY_DIR}/coir-config-version.cmake DESTINATION ${COIR_PACKAGE_DIR})

# The paths in it begin where the file itself lies, so that the tree may be moved.
file(RELATIVE_PATH COIR_PREFIX_FROM_PC ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
string(REGEX REPLACE "/$" "" COIR_PREFIX_FROM_PC ${COIR_PREFIX_FROM_PC})
file(RELATIVE_PATH COIR_LIBDIR ${CMAKE_INSTALL_PREFIX} ${CMAKE_INSTALL_FULL_LIBDIR})
file(RELATIVE_PATH COIR_INCLUDEDIR ${CMAKE_INSTALL_PREFIX} ${CMAKE_INSTALL_FULL_INCLUDEDIR})
set(COIR_PC coir.pc)
if(COIR_TLS)
    list(APPEND COIR_PC coir-tls.pc)
endif()
foreach(file ${COIR_PC})
    configure_file(cmake/${file}.in ${file} @ONLY)
    install(FILES ${PROJECT_BINARY_DIR}/${file} DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endforeach()

# gdb loads the second by itself when it loads the shared library, where its data are below the same
# prefix.
install(FILES debug/coir-gdb.py DESTINATION ${CMAKE_INSTALL_DATADIR}/coir)
install(FILES debug/coir-gdb.py DESTINATION ${COIR_GDB_DIR} RENAME libcoir.so.${PROJECT_VERSION}-gdb.py)

install(PROGRAMS debug/coir-bpftrace DESTINATION ${CMAKE_INSTALL_DATADIR}/coir)
install(DIRECTORY debug/bpftrace DESTINATION ${CMAKE_INSTALL_DATADIR}/coir FILES_MATCHING PATTERN *.bt)

find_program(PERL perl)
if(PERL)
    file(GLOB COIR_HEADERS CONFIGURE_DEPENDS include/coir/*.h)
    add_custom_command(OUTPUT man.stamp DEPENDS tools/make-man tools/Source.pm docs/coir.7.txt ${COIR_HEADERS} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR} VERBATIM COMMAND_EXPAND_LISTS
        COMMAND ${CMAKE_COMMAND} -E rm -rf ${PROJECT_BINARY_DIR}/man
        COMMAND ${PERL} tools/make-man ${PROJECT_BINARY_DIR}/man $<$<NOT:${COIR_TLS}>:tls.h>
        COMMAND ${CMAKE_COMMAND} -E touch ${PROJECT_BINARY_DIR}/man.stamp)
    add_custom_target(coir_man ALL DEPENDS man.stamp)
    install(DIRECTORY ${PROJECT_BINARY_DIR}/man/ TYPE MAN)
else()
    message(STATUS "coir: there is no perl: no man pages will be installed")
endif()

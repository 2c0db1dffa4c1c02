# What `cmake --install` puts down: the library, its headers, its CMake package, and the command.
include(CMakePackageConfigHelpers)
set(FT_PACKAGE ${CMAKE_INSTALL_LIBDIR}/cmake/Forethought)

install(TARGETS forethought_shared EXPORT ForethoughtTargets COMPONENT library
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library NAMELINK_COMPONENT library)
install(DIRECTORY include/forethought DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT library)
install(EXPORT ForethoughtTargets NAMESPACE Forethought:: DESTINATION ${FT_PACKAGE} COMPONENT library)
configure_package_config_file(cmake/ForethoughtConfig.cmake.in ${CMAKE_BINARY_DIR}/package/ForethoughtConfig.cmake
                              INSTALL_DESTINATION ${FT_PACKAGE})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/package/ForethoughtConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/package/ForethoughtConfig.cmake ${CMAKE_BINARY_DIR}/package/ForethoughtConfigVersion.cmake
        DESTINATION ${FT_PACKAGE} COMPONENT library)
install(TARGETS forethought RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT command)

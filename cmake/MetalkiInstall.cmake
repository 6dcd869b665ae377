# Where `find_package(metalki)` and the Python package find the library.
# In a wheel everything lies inside the package folder: the library beside the extension, so that $ORIGIN finds it.
include(CMakePackageConfigHelpers)

if(DEFINED SKBUILD)
  set(METALKI_INSTALL_LIBDIR ".")
  set(METALKI_INSTALL_INCLUDEDIR "include")
  set(METALKI_INSTALL_CMAKEDIR "cmake")
else()
  set(METALKI_INSTALL_LIBDIR "${CMAKE_INSTALL_LIBDIR}")
  set(METALKI_INSTALL_INCLUDEDIR "${CMAKE_INSTALL_INCLUDEDIR}")
  set(METALKI_INSTALL_CMAKEDIR "${CMAKE_INSTALL_LIBDIR}/cmake/metalki")
endif()

if(APPLE)
  set(metalki_own_folder "@loader_path")
else()
  set(metalki_own_folder "$ORIGIN")
endif()

target_include_directories(metalki INTERFACE
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/cpp/kernel_interface/include>
  $<INSTALL_INTERFACE:${METALKI_INSTALL_INCLUDEDIR}>)
target_compile_features(metalki INTERFACE cxx_std_20)
set_target_properties(metalki PROPERTIES INSTALL_RPATH "${metalki_own_folder}")

install(TARGETS metalki EXPORT metalkiTargets
  LIBRARY DESTINATION ${METALKI_INSTALL_LIBDIR} COMPONENT runtime
  ARCHIVE DESTINATION ${METALKI_INSTALL_LIBDIR} COMPONENT development
  RUNTIME DESTINATION ${METALKI_INSTALL_LIBDIR} COMPONENT runtime)
install(DIRECTORY "${PROJECT_SOURCE_DIR}/cpp/kernel_interface/include/"
  DESTINATION ${METALKI_INSTALL_INCLUDEDIR} COMPONENT development
  FILES_MATCHING PATTERN "*.hpp")

# metal-cpp programs: target metalki::metal_cpp adds <Metal/Metal.hpp>. A Mac has Apple's own headers for that.
if(NOT APPLE)
  set(metalki_metal_cpp_dir "${METALKI_INSTALL_INCLUDEDIR}/metalki/metal_cpp")
  add_library(metalki_metal_cpp INTERFACE)
  set_target_properties(metalki_metal_cpp PROPERTIES EXPORT_NAME metal_cpp)
  target_include_directories(metalki_metal_cpp INTERFACE
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/cpp/portable_metal/api/include>
    $<INSTALL_INTERFACE:${metalki_metal_cpp_dir}>)
  target_link_libraries(metalki_metal_cpp INTERFACE metalki)
  add_library(metalki::metal_cpp ALIAS metalki_metal_cpp)
  install(TARGETS metalki_metal_cpp EXPORT metalkiTargets COMPONENT development)
  install(DIRECTORY "${PROJECT_SOURCE_DIR}/cpp/portable_metal/api/include/"
    DESTINATION ${metalki_metal_cpp_dir} COMPONENT development
    FILES_MATCHING PATTERN "*.hpp")
endif()

install(EXPORT metalkiTargets NAMESPACE metalki:: DESTINATION ${METALKI_INSTALL_CMAKEDIR} COMPONENT development)
configure_package_config_file(
  "${CMAKE_CURRENT_LIST_DIR}/metalkiConfig.cmake.in" "${PROJECT_BINARY_DIR}/metalkiConfig.cmake"
  INSTALL_DESTINATION ${METALKI_INSTALL_CMAKEDIR})
write_basic_package_version_file("${PROJECT_BINARY_DIR}/metalkiConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/metalkiConfig.cmake" "${PROJECT_BINARY_DIR}/metalkiConfigVersion.cmake"
  DESTINATION ${METALKI_INSTALL_CMAKEDIR} COMPONENT development)

if(TARGET _core)
  set_target_properties(_core PROPERTIES INSTALL_RPATH "${metalki_own_folder}")
  install(TARGETS _core LIBRARY DESTINATION ${METALKI_INSTALL_LIBDIR} COMPONENT python)
endif()

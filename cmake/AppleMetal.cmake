# The back end on a Mac: Apple's metal-cpp headers from METAL_CPP_DIR, and Apple's frameworks.
set(METAL_CPP_DIR "$ENV{METAL_CPP_DIR}" CACHE PATH "Folder with Apple's metal-cpp headers (has Metal/Metal.hpp)")
if(NOT EXISTS "${METAL_CPP_DIR}/Metal/Metal.hpp")
  message(FATAL_ERROR "metalki: Apple's metal-cpp headers are needed: ${METAL_CPP_DIR}/Metal/Metal.hpp does not exist.\n"
    "Set -DMETAL_CPP_DIR= (or the environment variable METAL_CPP_DIR) to Apple's download, or fetch them with\n"
    "    python3 tests/macos/fetch.py metal-cpp build/metal_cpp")
endif()

# Gives the room `target` the headers and the library its frameworks.
function(metalki_use_apple_metal target)
  target_include_directories(${target} SYSTEM PRIVATE "${METAL_CPP_DIR}")
  target_sources(${target} PRIVATE "${PROJECT_SOURCE_DIR}/cpp/metal_backend/apple/metal_cpp.cpp")
  target_link_libraries(metalki PRIVATE "-framework Metal" "-framework Foundation" "-framework QuartzCore" objc)
endfunction()

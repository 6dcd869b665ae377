# Warnings and sanitizers for our own targets; third-party archives are not touched.
add_library(metalki_compile_options INTERFACE)
target_compile_options(metalki_compile_options INTERFACE -Wall -Wextra -Wno-unused-parameter)
target_compile_definitions(metalki_compile_options INTERFACE METALKI_VERSION="${PROJECT_VERSION}")
if(METALKI_SANITIZE)
  # vptr needs RTTI, which LLVM goes without.
  target_compile_options(metalki_compile_options INTERFACE -fsanitize=${METALKI_SANITIZE} -fno-sanitize=vptr -fno-omit-frame-pointer -O1 -g1) # more would make Clang's headers take minutes each
  target_link_options(metalki_compile_options INTERFACE -fsanitize=${METALKI_SANITIZE})
endif()

# One room of the house: an object library that becomes part of the shared library.
function(metalki_room name)
  cmake_parse_arguments(ROOM "" "" "SOURCES;INCLUDES" ${ARGN})
  add_library(${name} OBJECT ${ROOM_SOURCES})
  target_include_directories(${name} PUBLIC ${ROOM_INCLUDES})
  target_link_libraries(${name} PRIVATE metalki_compile_options)
  target_sources(metalki PRIVATE $<TARGET_OBJECTS:${name}>)
endfunction()

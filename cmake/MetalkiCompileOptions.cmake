# Warnings and sanitizers for our own targets; third-party archives are not touched.
add_library(metalki_compile_options INTERFACE)
target_compile_options(metalki_compile_options INTERFACE -Wall -Wextra -Wno-unused-parameter)
target_compile_definitions(metalki_compile_options INTERFACE METALKI_VERSION="${PROJECT_VERSION}")
if(METALKI_SANITIZE)
  # vptr needs RTTI, which LLVM goes without.
  target_compile_options(metalki_compile_options INTERFACE -fsanitize=${METALKI_SANITIZE} -fno-sanitize=vptr -fno-omit-frame-pointer -O1 -g1) # more would make Clang's headers take minutes each
  target_link_options(metalki_compile_options INTERFACE -fsanitize=${METALKI_SANITIZE})
endif()

# Kernels run on fibers of their own stacks, of which the thread sanitizer knows nothing: it leaves out the executor, whose code
# runs on them, and the compiler, whose archives have none. What both share with the other rooms is seen through pthread's
# functions.
set(METALKI_ROOMS_WITHOUT_THREAD_SANITIZER metalki_cpu metalki_headers metalki_compiler metalki_stdlib)
add_library(metalki_unsanitized_compile_options INTERFACE)
target_compile_options(metalki_unsanitized_compile_options INTERFACE -Wall -Wextra -Wno-unused-parameter)
target_compile_definitions(metalki_unsanitized_compile_options INTERFACE METALKI_VERSION="${PROJECT_VERSION}")

# A launch looks at some fifty thread-local variables, and the library has its room of them from the start anyway.
set(METALKI_ROOMS_OF_THE_LAUNCH_PATH metalki_kernel_interface metalki_backend metalki_api metalki_cpu)

# One room of the house: an object library that becomes part of the shared library.
function(metalki_room name)
  cmake_parse_arguments(ROOM "" "" "SOURCES;INCLUDES" ${ARGN})
  add_library(${name} OBJECT ${ROOM_SOURCES})
  target_include_directories(${name} PUBLIC ${ROOM_INCLUDES})
  if(METALKI_SANITIZE STREQUAL "thread" AND name IN_LIST METALKI_ROOMS_WITHOUT_THREAD_SANITIZER)
    target_link_libraries(${name} PRIVATE metalki_unsanitized_compile_options)
  else()
    target_link_libraries(${name} PRIVATE metalki_compile_options)
  endif()
  if(name IN_LIST METALKI_ROOMS_OF_THE_LAUNCH_PATH AND NOT APPLE)
    target_compile_options(${name} PRIVATE -ftls-model=initial-exec)
  endif()
  target_sources(metalki PRIVATE $<TARGET_OBJECTS:${name}>)
endfunction()

# Finds the static archives of LLVM 19 and Clang 19 and collects them in the target metalki_static_llvm.
set(METALKI_LLVM_PACKAGES "clang-19 llvm-19-dev libclang-19-dev libpolly-19-dev lld-19 zlib1g-dev libzstd-dev")

function(metalki_need_llvm reason)
  message(FATAL_ERROR "metalki: ${reason}\n"
    "metalki needs LLVM 19 and Clang 19 to build. On Debian 12 or later and Ubuntu 24.04:\n"
    "    apt-get install ${METALKI_LLVM_PACKAGES}\n"
    "or point -DLLVM_CONFIG= at another llvm-config of version 19.")
endfunction()

find_program(LLVM_CONFIG NAMES llvm-config-19 llvm-config)
if(NOT LLVM_CONFIG)
  metalki_need_llvm("llvm-config-19 was not found.")
endif()

function(metalki_llvm_config result)
  execute_process(COMMAND ${LLVM_CONFIG} ${ARGN} OUTPUT_VARIABLE output RESULT_VARIABLE status
    ERROR_VARIABLE complaint OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(NOT status EQUAL 0)
    metalki_need_llvm("`${LLVM_CONFIG} ${ARGN}` failed: ${complaint}")
  endif()
  set(${result} "${output}" PARENT_SCOPE)
endfunction()

metalki_llvm_config(llvm_version --version)
if(NOT llvm_version MATCHES "^19\\.")
  metalki_need_llvm("${LLVM_CONFIG} is version ${llvm_version}, not 19.")
endif()
metalki_llvm_config(METALKI_LLVM_INCLUDE_DIR --includedir)
metalki_llvm_config(llvm_lib_dir --libdir)
foreach(needed "${METALKI_LLVM_INCLUDE_DIR}/clang/Parse/Parser.h" "${llvm_lib_dir}/libclangParse.a"
               "${llvm_lib_dir}/libLLVMCore.a")
  if(NOT EXISTS "${needed}")
    metalki_need_llvm("${needed} is missing.")
  endif()
endforeach()

find_program(METALKI_LLD NAMES ld.lld ld.lld-19 HINTS "${llvm_lib_dir}/../bin")
if(NOT METALKI_LLD)
  metalki_need_llvm("the linker ld.lld was not found.")
endif()
find_package(ZLIB REQUIRED)
find_library(METALKI_ZSTD NAMES zstd)
if(NOT METALKI_ZSTD)
  metalki_need_llvm("libzstd was not found.")
endif()

if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  set(host_components x86)
else()
  set(host_components aarch64)
endif()
metalki_llvm_config(llvm_archives --libs --link-static ${host_components} nvptx orcjit passes frontendopenmp
  frontendhlsl frontenddriver coverage lto option windowsdriver objcarcopts)
separate_arguments(llvm_archives)
list(TRANSFORM llvm_archives REPLACE "^-l(.*)$" "${llvm_lib_dir}/lib\\1.a")
# llvm-config names Polly; nothing of it is called, so the link needs the archive only if the passes refer to it.
set(clang_archives "")
foreach(name Frontend Driver Parse Serialization Sema APINotes Analysis Edit ASTMatchers AST Lex CodeGen Basic Support
             ExtractAPI InstallAPI)
  if(EXISTS "${llvm_lib_dir}/libclang${name}.a")
    list(APPEND clang_archives "${llvm_lib_dir}/libclang${name}.a")
  endif()
endforeach()

# GCC before 13 looks for the linker only under the plain name ld.lld, in the folders given by -B.
set(lld_dir "${CMAKE_BINARY_DIR}/lld")
file(MAKE_DIRECTORY "${lld_dir}")
file(CREATE_LINK "${METALKI_LLD}" "${lld_dir}/ld.lld" SYMBOLIC)

add_library(metalki_static_llvm INTERFACE)
target_link_libraries(metalki_static_llvm INTERFACE -Wl,--start-group ${clang_archives} ${llvm_archives} -Wl,--end-group
  ZLIB::ZLIB ${METALKI_ZSTD} ${CMAKE_DL_LIBS} pthread m)
target_link_options(metalki_static_llvm INTERFACE -B${lld_dir} -fuse-ld=lld -Wl,--exclude-libs,ALL -Wl,--gc-sections)
if(NOT METALKI_SANITIZE)
  target_link_options(metalki_static_llvm INTERFACE -Wl,-z,defs)
endif()

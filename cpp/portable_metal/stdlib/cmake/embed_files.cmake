# Writes a C++ source that holds every file under INCLUDE_DIR. Run with: cmake -DINCLUDE_DIR=... -DOUTPUT=... -P embed_files.cmake
file(GLOB_RECURSE paths RELATIVE ${INCLUDE_DIR} ${INCLUDE_DIR}/*)
list(SORT paths)
set(entries "")
foreach(path IN LISTS paths)
  file(READ ${INCLUDE_DIR}/${path} text)
  string(APPEND entries "    {\"${path}\", R\"msl(${text})msl\"},\n")
endforeach()
file(WRITE ${OUTPUT}
  "// Generated from the headers in stdlib/include.\n#include \"stdlib/embedded_files.hpp\"\n\n"
  "namespace metalki::stdlib {\nnamespace {\n\nconst EmbeddedFile files[] = {\n" "${entries}" "};\n\n} // namespace\n\n"
  "std::span<const EmbeddedFile> embedded_files() { return files; }\n\n} // namespace metalki::stdlib\n")

// metalki_precompile FILE: writes the standard headers in precompiled form, while the library is being built.
#include <cstdio>
#include <exception>
#include <fstream>

#include "frontend/prefix_compiler.hpp"

int main(int count, char** arguments) {
    if (count != 2) {
        std::fprintf(stderr, "usage: %s FILE\n", arguments[0]);
        return 2;
    }
    try {
        const std::string text = metalki::compiler::compile_prefix();
        std::ofstream file(arguments[1], std::ios::binary);
        file.write(text.data(), static_cast<std::streamsize>(text.size()));
        file.close();
        return file ? 0 : (std::perror(arguments[1]), 1);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
}

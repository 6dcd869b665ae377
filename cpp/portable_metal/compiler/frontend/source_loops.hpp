// Notes which blocks of a function Clang writes for which loop of the source.
#pragma once

#include "codegen/whole_loops.hpp"

namespace metalki::compiler {

// While one lives, the loops of the code that Clang generates on this thread are noted in `loops`.
class NoteLoops {
public:
    explicit NoteLoops(SourceLoops& loops);
    ~NoteLoops();
    NoteLoops(const NoteLoops&) = delete;
    NoteLoops& operator=(const NoteLoops&) = delete;
};

} // namespace metalki::compiler

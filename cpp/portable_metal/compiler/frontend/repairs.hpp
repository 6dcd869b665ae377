// Expressions that Metal accepts and Clang refuses, found in a first parse and wrapped in helper calls for the next one.
#pragma once

#include <map>
#include <set>

#include "clang/Basic/Diagnostic.h"

#include "frontend/diagnostics.hpp"

namespace metalki::compiler {

// Keyed by raw source locations: they are the same in every parse of the same text within one process.
struct Repairs {
    // `?:` with class operands of different address spaces: metal::__load( ) copies an operand out of its space.
    std::map<unsigned, int> load_begin, load_end;
    // half <-> bfloat conversions: metal::__widen( ) goes through float.
    std::map<unsigned, int> widen_begin, widen_end;
    std::set<std::pair<unsigned, unsigned>> widened_arguments; // of calls, as below
    // Names such as `xy`: members of the program's own types, or swizzles although the program has members of that name.
    std::set<unsigned> members, swizzles;
    // First tokens of expressions like `v.x` that are constant expressions: metal::vec has a function for those.
    std::set<unsigned> constant_components;
    // Calls whose template parameter took the address space of an argument along: the arguments are copied first.
    std::set<unsigned> calls_by_value;
    // Calls that are ambiguous because an object in a named space would also bind to a reference to thread memory, which MSL
    // has not: such arguments become const, which references to thread memory to be written to do not take.
    std::set<unsigned> ambiguous_calls;
    // Where string literals are to be constant char pointers, metal::__text( ): expressions, from their first token to their
    // last, and arguments of calls, by the first token of the call and their number from 1.
    std::map<unsigned, unsigned> constant_texts;
    std::set<std::pair<unsigned, unsigned>> constant_text_arguments;

    bool operator==(const Repairs&) const = default;
};

// Collects diagnostics and, beside them, the repairs that would avoid the errors.
class RepairCollector : public DiagnosticCollector {
public:
    explicit RepairCollector(Repairs known) : repairs_(std::move(known)) {}
    void HandleDiagnostic(clang::DiagnosticsEngine::Level level, const clang::Diagnostic& info) override;
    const Repairs& repairs() const { return repairs_; }

private:
    void note_member_error(const clang::Diagnostic& info);
    void note_literals(const clang::Diagnostic& info);
    void note_argument(const clang::Diagnostic& info);
    Repairs repairs_;
    unsigned refused_call_ = 0;  // where the last call without a viable function begins
    bool space_deduced_ = false; // the last error came from a template parameter that holds an address space
};

} // namespace metalki::compiler

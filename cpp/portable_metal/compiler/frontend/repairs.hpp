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
    // Names such as `xy`: members of the program's own types, or swizzles although the program has members of that name.
    std::set<unsigned> members, swizzles;
    // First tokens of expressions like `v.x` that are constant expressions: metal::vec has a function for those.
    std::set<unsigned> constant_components;
    // Calls whose template parameter took the address space of an argument along: the arguments are copied first.
    std::set<unsigned> calls_by_value;
    // String literals that are to be constant char pointers: metal::__text( ).
    std::set<unsigned> constant_texts;

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
    Repairs repairs_;
    bool space_deduced_ = false; // the last error came from a template parameter that holds an address space
};

} // namespace metalki::compiler

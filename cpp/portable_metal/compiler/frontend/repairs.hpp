// Expressions that Metal accepts and Clang refuses, found in a first parse and wrapped in helper calls for the next one.
#pragma once

#include <map>

#include "clang/Basic/Diagnostic.h"

#include "frontend/diagnostics.hpp"

namespace metalki::compiler {

// Keyed by raw source locations: they are the same in every parse of the same text within one process.
struct Repairs {
    // `?:` with class operands of different address spaces: metal::__load( ) copies an operand out of its space.
    std::map<unsigned, int> load_begin, load_end;
    // half <-> bfloat conversions: metal::__widen( ) goes through float.
    std::map<unsigned, int> widen_begin, widen_end;

    bool operator==(const Repairs&) const = default;
};

// Collects diagnostics and, beside them, the repairs that would avoid the errors.
class RepairCollector : public DiagnosticCollector {
public:
    explicit RepairCollector(Repairs known) : repairs_(std::move(known)) {}
    void HandleDiagnostic(clang::DiagnosticsEngine::Level level, const clang::Diagnostic& info) override;
    const Repairs& repairs() const { return repairs_; }

private:
    Repairs repairs_;
};

} // namespace metalki::compiler

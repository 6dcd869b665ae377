// Collects Clang's diagnostics as data and as the text a compiler would print, in MSL's words.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "clang/Basic/Diagnostic.h"

#include "compiler/compiler.hpp"

namespace metalki::compiler {

class DiagnosticCollector : public clang::DiagnosticConsumer {
public:
    void HandleDiagnostic(clang::DiagnosticsEngine::Level level, const clang::Diagnostic& info) override;

    // Notes without a place in the user's text are dropped; everything else is kept in order.
    virtual ~DiagnosticCollector() = default;
    std::vector<Diagnostic> take();
    bool has_errors() const { return NumErrors > 0; }
    // file:line:col: severity: message, the line, a caret; one paragraph per diagnostic.
    std::string text() const;

private:
    void keep_candidate(Diagnostic note);

    static constexpr std::size_t none = ~std::size_t(0);

    std::vector<Diagnostic> diagnostics_;
    std::set<std::string> said_;   // errors and warnings with their places: each is told once, however often a template is made
    bool is_repeated_ = false;     // the last of them, and so the notes behind it
    std::size_t misplaced_ = none; // an error in our own headers that waits for the user's line
};

// Replaces what only our set-up of Clang knows (attribute spellings, helper names) by MSL's own terms.
std::string in_msl_terms(std::string message);

} // namespace metalki::compiler

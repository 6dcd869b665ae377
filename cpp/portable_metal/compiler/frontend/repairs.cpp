// Recognises the two repairable errors by their diagnostic numbers and source ranges.
#include "frontend/repairs.hpp"

#include "clang/Basic/DiagnosticSema.h"
#include "llvm/ADT/SmallString.h"

namespace metalki::compiler {
namespace {

void wrap(const clang::CharSourceRange& range, std::map<unsigned, int>& begin, std::map<unsigned, int>& end) {
    // One pair of helper calls a range is enough, however many instantiations complain.
    begin[range.getBegin().getRawEncoding()] = 1;
    end[range.getEnd().getRawEncoding()] = 1;
}

bool between_half_and_bfloat(const clang::Diagnostic& info) {
    llvm::SmallString<256> text;
    info.FormatDiagnostic(text);
    llvm::StringRef message(text);
    return message.contains("_Float16") && message.contains("__bf16");
}

} // namespace

void RepairCollector::HandleDiagnostic(clang::DiagnosticsEngine::Level level, const clang::Diagnostic& info) {
    DiagnosticCollector::HandleDiagnostic(level, info);
    switch (info.getID()) {
    case clang::diag::err_typecheck_cond_incompatible_operands:
        for (const clang::CharSourceRange& operand : info.getRanges().take_front(2)) {
            wrap(operand, repairs_.load_begin, repairs_.load_end);
        }
        break;
    case clang::diag::err_bad_cxx_cast_generic:
    case clang::diag::err_init_conversion_failed:
    case clang::diag::err_typecheck_convert_incompatible:
        if (info.getNumRanges() > 0 && between_half_and_bfloat(info)) {
            wrap(info.getRanges().back(), repairs_.widen_begin, repairs_.widen_end);
        }
        break;
    default:
        break;
    }
}

} // namespace metalki::compiler

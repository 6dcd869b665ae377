// Recognises repairable errors by their diagnostic numbers and source ranges.
#include "frontend/repairs.hpp"

#include "clang/AST/ASTDiagnostic.h"
#include "clang/Basic/DiagnosticSema.h"
#include "llvm/ADT/SmallString.h"

#include "frontend/rewriter.hpp"

namespace metalki::compiler {
namespace {

void wrap(const clang::CharSourceRange& range, std::map<unsigned, int>& begin, std::map<unsigned, int>& end) {
    // One pair of helper calls a range is enough, however many instantiations complain.
    begin[range.getBegin().getRawEncoding()] = 1;
    end[range.getEnd().getRawEncoding()] = 1;
}

llvm::SmallString<256> text_of(const clang::Diagnostic& info) {
    llvm::SmallString<256> text;
    info.FormatDiagnostic(text);
    return text;
}

bool between_half_and_bfloat(const clang::Diagnostic& info) {
    llvm::SmallString<256> text = text_of(info);
    return text.str().contains("_Float16") && text.str().contains("__bf16");
}

// In MSL literals are in the constant space.
bool is_literal_for_constant(llvm::StringRef message) {
    return message.contains("__global_host char *") && (message.contains("'const char[") || message.contains("'const char *'"));
}

} // namespace

// "no member named 'xy' in 'vec<float, 4>'": one name, a member here and a swizzle there.
void RepairCollector::note_member_error(const clang::Diagnostic& info) {
    llvm::SmallString<256> text = text_of(info);
    auto [before, rest] = text.str().split('\'');
    auto [name, type] = rest.split('\'');
    unsigned at = info.getLocation().getRawEncoding();
    if (name == "__g" || name == "__l") {
        if (!repairs_.swizzles.count(at)) {
            repairs_.members.insert(at);
        }
    } else if (type.contains("vec<") && name.size() > 1 && !rewriting::swizzle_indices(name).empty() &&
               !repairs_.members.count(at)) {
        repairs_.swizzles.insert(at);
    }
}

void RepairCollector::note_literals(const clang::Diagnostic& info) {
    if (!is_literal_for_constant(text_of(info))) {
        return;
    }
    for (const clang::CharSourceRange& range : info.getRanges()) {
        repairs_.constant_texts[range.getBegin().getRawEncoding()] = range.getEnd().getRawEncoding();
    }
}

// "candidate function not viable: no known conversion from '_Float16' to '__bf16' for 1st argument", or from 'const char[4]' to
// 'const __global_host char *' for 2nd argument"
void RepairCollector::note_argument(const clang::Diagnostic& info) {
    llvm::SmallString<256> text = text_of(info);
    const bool literal = is_literal_for_constant(text);
    if (refused_call_ == 0 || (!literal && !between_half_and_bfloat(info))) {
        return;
    }
    llvm::StringRef number = text.str().rsplit(" for ").second;
    unsigned position = 0;
    if (!number.consumeInteger(10, position)) {
        (literal ? repairs_.constant_text_arguments : repairs_.widened_arguments).emplace(refused_call_, position);
    }
}

void RepairCollector::HandleDiagnostic(clang::DiagnosticsEngine::Level level, const clang::Diagnostic& info) {
    DiagnosticCollector::HandleDiagnostic(level, info);
    if (level >= clang::DiagnosticsEngine::Error) {
        space_deduced_ = false;
        refused_call_ = 0;
    }
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
        note_literals(info);
        break;
    case clang::diag::err_ovl_no_viable_function_in_call:
    case clang::diag::err_ovl_no_viable_member_function_in_call:
    case clang::diag::err_ovl_no_viable_function_in_init:
    case clang::diag::err_ovl_no_viable_conversion_in_cast:
        refused_call_ = info.getLocation().getRawEncoding();
        break;
    case clang::diag::err_ovl_ambiguous_call:
        repairs_.ambiguous_calls.insert(info.getLocation().getRawEncoding());
        break;
    case clang::diag::note_ovl_candidate_bad_conv:
        note_argument(info);
        break;
    case clang::diag::err_no_member:
    case clang::diag::err_no_member_suggest:
    case clang::diag::err_no_member_template:
    case clang::diag::err_no_member_template_suggest:
        note_member_error(info);
        break;
    case clang::diag::note_constexpr_access_inactive_union_member:
        repairs_.constant_components.insert(info.getLocation().getRawEncoding());
        break;
    case clang::diag::err_as_qualified_auto_decl:
    case clang::diag::err_attribute_address_multiple_qualifiers:
        space_deduced_ = true;
        break;
    case clang::diag::note_function_template_spec_here:
        if (space_deduced_) {
            repairs_.calls_by_value.insert(info.getLocation().getRawEncoding());
        }
        break;
    default:
        break;
    }
}

} // namespace metalki::compiler

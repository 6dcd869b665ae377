// Writes entry points as text and lexes it; the kernel itself enters as a ready expression, so no type is ever printed.
#include "frontend/entry_points.hpp"

#include "clang/AST/Expr.h"
#include "clang/Lex/Lexer.h"
#include "clang/Lex/Preprocessor.h"
#include "llvm/Support/MemoryBuffer.h"

namespace metalki::compiler {
namespace {

constexpr const char* placeholder = "__metalki_kernel";

std::string call_text(const KernelEntry& kernel) {
    std::string text = std::string(placeholder) + "(";
    for (std::size_t i = 0; i < kernel.parameters.size(); ++i) {
        const Parameter& p = kernel.parameters[i];
        std::string slot = "{c->arguments[" + std::to_string(p.slot) + "]}";
        text += i == 0 ? "" : ", ";
        switch (p.source) {
        case Parameter::Source::pointer:
            text += "metal::__pointer_slot" + slot;
            break;
        case Parameter::Source::reference:
            text += "metal::__reference_slot" + slot;
            break;
        case Parameter::Source::value:
            text += "metal::__value_slot" + slot;
            break;
        case Parameter::Source::array:
            text += "metal::__array_slots{c->arguments + " + std::to_string(p.slot) + "}";
            break;
        case Parameter::Source::position:
            text += "t." + p.position + "()";
            break;
        }
    }
    return text + ");";
}

std::string entry_text(const KernelEntry& kernel, std::size_t index) {
    std::string call = call_text(kernel);
    std::string text = "extern \"C\" void " + thread_entry_name(index) +
                       "(const metal::__threadgroup_context* c, unsigned x, unsigned y, unsigned z) { metal::__lane_place t; " +
                       call + " }\n";
    text += "extern \"C\" void " + threadgroup_entry_name(index) +
            "(const metal::__threadgroup_context* c) { const unsigned w = c->threads_in_this_threadgroup.x, "
            "h = c->threads_in_this_threadgroup.y, d = c->threads_in_this_threadgroup.z; "
            "for (unsigned z = 0; z < d; ++z) for (unsigned y = 0; y < h; ++y) for (unsigned x = 0; x < w; ++x) "
            "{ metal::__thread_place t{c, x, y, z}; " +
            call + " } }\n";
    for (const Parameter& p : kernel.parameters) {
        for (unsigned k = 0; !p.active_if.empty() && k < p.slots; ++k) {
            text += "extern \"C\" bool " + active_name(index, p.slot + k) + "() { return bool(" + p.active_if + "); }\n";
        }
    }
    return text;
}

} // namespace

std::string thread_entry_name(std::size_t kernel) {
    return "__metalki_thread_" + std::to_string(kernel);
}
std::string threadgroup_entry_name(std::size_t kernel) {
    return "__metalki_group_" + std::to_string(kernel);
}
std::string active_name(std::size_t kernel, unsigned slot) {
    return "__metalki_active_" + std::to_string(kernel) + "_" + std::to_string(slot);
}

std::vector<clang::Token> entry_point_tokens(clang::Sema& sema, const KernelTable& table) {
    clang::Preprocessor& preprocessor = sema.getPreprocessor();
    clang::SourceManager& sources = preprocessor.getSourceManager();
    std::vector<clang::Token> tokens;
    for (std::size_t i = 0; i < table.kernels.size(); ++i) {
        clang::FunctionDecl* function = table.kernels[i].declaration;
        sema.MarkFunctionReferenced(function->getLocation(), function);
        clang::Expr* callee = sema.BuildDeclRefExpr(function, function->getType(), clang::VK_LValue, function->getLocation());
        auto buffer = llvm::MemoryBuffer::getMemBufferCopy(entry_text(table.kernels[i], i), "<metalki entry point>");
        clang::FileID file = sources.createFileID(std::move(buffer));
        clang::Lexer lexer(file, sources.getBufferOrFake(file), sources, preprocessor.getLangOpts());
        for (clang::Token token;;) {
            lexer.LexFromRawLexer(token);
            if (token.is(clang::tok::eof)) {
                break;
            }
            if (token.is(clang::tok::raw_identifier)) {
                preprocessor.LookUpIdentifierInfo(token);
            }
            if (token.is(clang::tok::identifier) && token.getIdentifierInfo()->getName() == placeholder) {
                clang::SourceLocation at = token.getLocation();
                token.startToken();
                token.setKind(clang::tok::annot_primary_expr);
                token.setLocation(at);
                token.setAnnotationEndLoc(at);
                token.setAnnotationValue(clang::ExprResult(callee).getAsOpaquePointer());
            }
            tokens.push_back(token);
        }
    }
    clang::Token end;
    end.startToken();
    end.setKind(clang::tok::eof);
    tokens.push_back(end);
    return tokens;
}

} // namespace metalki::compiler

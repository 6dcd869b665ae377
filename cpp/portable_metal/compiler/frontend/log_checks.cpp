// Reads literal formats as the executor will when the kernel runs.
#include "frontend/log_checks.hpp"

#include <optional>

#include "clang/AST/DeclCXX.h"
#include "clang/AST/DeclTemplate.h"
#include "clang/AST/ExprCXX.h"

#include "compiler/log_format.hpp"

namespace metalki::compiler {
namespace {

bool is_called(const clang::NamedDecl* declaration, llvm::StringRef name) {
    return declaration && declaration->getDeclName().isIdentifier() && declaration->getName() == name;
}
bool is_in(const clang::DeclContext* context, llvm::StringRef name) {
    return is_called(llvm::dyn_cast_or_null<clang::NamedDecl>(context), name);
}

struct LogCall {
    unsigned format;    // position of the argument
    bool prints_extras; // KI.print
};

std::optional<LogCall> log_call(const clang::FunctionDecl& callee) {
    if (!callee.getDeclName().isIdentifier()) {
        return std::nullopt;
    }
    llvm::StringRef name = callee.getName();
    const clang::DeclContext* owner = callee.getDeclContext();
    if (name == "printf" && is_in(owner, "metal")) {
        return LogCall{0, false};
    }
    if (name == "print" && is_in(owner, "thread_place") && is_in(owner->getParent(), "ki")) {
        return LogCall{0, true};
    }
    if (name.starts_with("log") && is_in(owner, "os_log") && is_in(owner->getParent(), "metal")) {
        return LogCall{name == "log_with_type" ? 1u : 0u, false};
    }
    return std::nullopt;
}

const clang::StringLiteral* literal(const clang::Expr* expression) {
    expression = expression->IgnoreParenImpCasts();
    const auto* call = llvm::dyn_cast<clang::CallExpr>(expression);
    if (call && is_called(call->getDirectCallee(), "__text")) {
        expression = call->getArg(0)->IgnoreParenImpCasts();
    }
    const auto* text = llvm::dyn_cast<clang::StringLiteral>(expression);
    return text && text->getCharByteWidth() == 1 ? text : nullptr;
}

struct ArgumentType {
    LogClass kind = LogClass::other;
    int components = 1;
};

LogClass scalar_class(clang::QualType type) {
    if (type->isPointerType()) {
        clang::QualType pointee = type->getPointeeType();
        bool plain_char = pointee->isSpecificBuiltinType(clang::BuiltinType::Char_S) ||
                          pointee->isSpecificBuiltinType(clang::BuiltinType::Char_U);
        bool text = plain_char && pointee.isConstQualified() &&
                    (!pointee.hasAddressSpace() || pointee.getAddressSpace() == clang::LangAS::sycl_global_host);
        return text ? LogClass::text : LogClass::pointer;
    }
    if (type->isNullPtrType()) {
        return LogClass::pointer;
    }
    if (type->isRealFloatingType()) {
        return LogClass::real;
    }
    return type->isIntegralOrEnumerationType() ? LogClass::integer : LogClass::other;
}

ArgumentType describe(const clang::Expr& argument) {
    clang::QualType type = argument.getType().getCanonicalType().getUnqualifiedType();
    const auto* vector = llvm::dyn_cast_or_null<clang::ClassTemplateSpecializationDecl>(type->getAsCXXRecordDecl());
    if (!vector) {
        return {scalar_class(type), 1};
    }
    bool named = is_called(vector, "vec") || is_called(vector, "packed_vec");
    if (!named || vector->getTemplateArgs().size() != 2) {
        return {};
    }
    return {scalar_class(vector->getTemplateArgs()[0].getAsType().getCanonicalType()),
            static_cast<int>(vector->getTemplateArgs()[1].getAsIntegral().getExtValue())};
}

class Check {
public:
    Check(clang::Sema& sema, const clang::CallExpr& call, const LogCall& kind)
        : sema_(sema), call_(call), kind_(kind), next_(kind.format + 1) {}

    void run(llvm::StringRef format) {
        LogFormatReader reader{std::string_view(format.data(), format.size())};
        while (!reader.at_end() && !warned_) {
            if (auto conversion = reader.conversion()) {
                check(*conversion);
            } else {
                reader.literal();
            }
        }
        if (!warned_ && !kind_.prints_extras && next_ < call_.getNumArgs()) {
            warn(*call_.getArg(next_), "the format has no conversion for this argument");
        }
    }

private:
    void check(const LogConversion& conversion) {
        std::string text(conversion.text);
        if (conversion.letter == 0) {
            return warn(*call_.getArg(kind_.format), "the conversion '" + text + "' at the end of the format is incomplete");
        }
        if (conversion.letter == '%') {
            return;
        }
        for (bool given : {conversion.width_argument, conversion.precision_argument}) {
            const clang::Expr* star = given ? take(text) : nullptr;
            if (star && (describe(*star).kind != LogClass::integer || describe(*star).components != 1)) {
                return warn(*star, "'*' in the conversion '" + text + "' takes an int");
            }
        }
        const clang::Expr* argument = warned_ ? nullptr : take(text);
        if (!argument) {
            return;
        }
        if (conversion.letter == 'n' || !is_log_conversion(conversion.letter)) {
            return warn(*argument, "there is no conversion '" + text + "'");
        }
        ArgumentType type = describe(*argument);
        int components = conversion.vector > 0 ? conversion.vector : 1;
        if (!takes(conversion.letter, type.kind) || components != type.components) {
            warn(*argument, "the conversion '" + text + "' does not take an argument of type " +
                                argument->getType().getUnqualifiedType().getAsString(sema_.getPrintingPolicy()));
        }
    }

    const clang::Expr* take(const std::string& conversion) {
        if (next_ < call_.getNumArgs()) {
            return call_.getArg(next_++);
        }
        warn(*call_.getArg(kind_.format), "the conversion '" + conversion + "' has no argument");
        return nullptr;
    }

    void warn(const clang::Expr& at, const std::string& problem) {
        warned_ = true;
        auto id = sema_.getDiagnostics().getDiagnosticIDs()->getCustomDiagID(clang::DiagnosticIDs::Warning, "%0");
        sema_.Diag(at.getBeginLoc(), id) << problem;
    }

    clang::Sema& sema_;
    const clang::CallExpr& call_;
    const LogCall kind_;
    unsigned next_;
    bool warned_ = false;
};

} // namespace

void check_log_call(clang::Sema& sema, const clang::CallExpr& call, std::set<unsigned>& checked) {
    const clang::FunctionDecl* callee = call.getDirectCallee();
    const std::optional<LogCall> kind = callee ? log_call(*callee) : std::nullopt;
    if (!kind || call.getNumArgs() <= kind->format) {
        return;
    }
    for (const clang::Expr* argument : call.arguments()) {
        if (argument->isTypeDependent() || argument->isValueDependent() || llvm::isa<clang::PackExpansionExpr>(argument)) {
            return;
        }
    }
    const clang::StringLiteral* format = literal(call.getArg(kind->format));
    if (format && checked.insert(call.getBeginLoc().getRawEncoding()).second) {
        Check(sema, call, *kind).run(format->getString());
    }
}

} // namespace metalki::compiler

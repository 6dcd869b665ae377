// Each METAL pragma stands for pragmas of Clang, which enter as _Pragma operators.
#include "frontend/pragmas.hpp"

#include <memory>
#include <string>
#include <vector>

#include "clang/Lex/Pragma.h"
#include "clang/Lex/Token.h"

namespace metalki::compiler {
namespace {

std::vector<std::string> pragmas_for(const std::string& option, const std::string& value) {
    if (option == "contract") {
        return {"clang fp contract(" + std::string(value == "off" ? "off" : value == "on" ? "on" : "fast") + ")"};
    }
    if (option == "math_mode" && value == "safe") {
        return {"float_control(precise, on)", "clang fp contract(off)"};
    }
    if (option == "math_mode" && (value == "relaxed" || value == "fast")) {
        return {"clang fp reassociate(on) reciprocal(on) contract(fast)"};
    }
    return {};
}

class MetalPragma : public clang::PragmaHandler {
public:
    MetalPragma() : PragmaHandler("METAL") {}

    void HandlePragma(clang::Preprocessor& preprocessor, clang::PragmaIntroducer, clang::Token& first) override {
        std::vector<std::string> words;
        clang::Token token;
        for (preprocessor.LexUnexpandedToken(token); token.isNot(clang::tok::eod); preprocessor.LexUnexpandedToken(token)) {
            words.push_back(preprocessor.getSpelling(token));
        }
        std::vector<clang::Token> out;
        // fp option ( value ) option ( value ) ...
        for (std::size_t i = 1; i + 3 < words.size() && words[0] == "fp"; i += 4) {
            for (const std::string& pragma : pragmas_for(words[i], words[i + 2])) {
                append(preprocessor, out, pragma, first.getLocation());
            }
        }
        if (!out.empty()) {
            auto owned = std::make_unique<clang::Token[]>(out.size());
            std::copy(out.begin(), out.end(), owned.get());
            preprocessor.EnterTokenStream(std::move(owned), static_cast<unsigned>(out.size()), /*DisableMacroExpansion=*/false,
                                          /*IsReinject=*/false);
        }
    }

private:
    // _Pragma("text")
    static void append(clang::Preprocessor& preprocessor, std::vector<clang::Token>& out, const std::string& text,
                       clang::SourceLocation at) {
        auto add = [&](clang::tok::TokenKind kind) -> clang::Token& {
            clang::Token& token = out.emplace_back();
            token.startToken();
            token.setKind(kind);
            token.setLocation(at);
            return token;
        };
        clang::Token& name = add(clang::tok::identifier);
        name.setIdentifierInfo(preprocessor.getIdentifierInfo("_Pragma"));
        name.setLength(7);
        add(clang::tok::l_paren).setLength(1);
        preprocessor.CreateString("\"" + text + "\"", add(clang::tok::string_literal), at, at);
        add(clang::tok::r_paren).setLength(1);
    }
};

} // namespace

void add_metal_pragmas(clang::Preprocessor& preprocessor) {
    preprocessor.AddPragmaHandler(new MetalPragma); // the preprocessor owns it
}

} // namespace metalki::compiler

// See the header. An upper bound, from tokens alone: each operator may be a level. Names, literals and what commas separate are
// none.
#include "frontend/nesting.hpp"

namespace metalki::compiler {
namespace {

constexpr std::size_t most_levels = 10000;
// As many as brackets inside of each other: the type of an array is walked once for each of its dimensions.
constexpr std::size_t most_dimensions = 256;
// LLVM looks through all the loops around a loop, and at each of them through those around it.
constexpr std::size_t most_loops = 256;

class Nesting {
public:
    // Levels around the token and at its left.
    std::size_t add(const clang::Token& token) {
        using namespace clang;
        if (ends_ && token.isNot(tok::kw_else)) {
            levels_.back().operators = 0;
            levels_.back().loops = 0;
        }
        ends_ = false;
        if (token.isOneOf(tok::r_paren, tok::r_square, tok::r_brace)) {
            if (levels_.size() > 1) {
                levels_.pop_back();
            }
            ends_ = token.is(tok::r_brace) && !levels_.back().is_list;
        } else if (token.is(tok::semi) || (token.is(tok::comma) && levels_.back().is_list)) {
            ends_ = true;
        } else if (!tok::isLiteral(token.getKind()) && token.isNot(tok::identifier)) {
            ++levels_.back().operators;
        }
        levels_.back().loops += token.isOneOf(tok::kw_for, tok::kw_while, tok::kw_do) ? 1 : 0;
        const std::size_t depth = levels_.back().before + levels_.back().operators;
        if (token.is(tok::l_square)) {
            levels_.back().dimensions = last_ == tok::r_square ? levels_.back().dimensions + 1 : 1;
        }
        if (token.isOneOf(tok::l_paren, tok::l_square, tok::l_brace)) {
            levels_.push_back({depth, 0, 0, loops(), 0, token.is(tok::l_brace) && starts_list()});
        }
        last_ = token.getKind();
        return depth;
    }

    // Around the token and at its left.
    std::size_t loops() const { return levels_.back().loops_before + levels_.back().loops; }
    // Pairs of square brackets in a row, after the last one.
    std::size_t dimensions() const { return last_ == clang::tok::r_square ? levels_.back().dimensions : 0; }

private:
    struct Level {
        std::size_t before = 0; // levels around the bracket
        std::size_t operators = 0;
        std::size_t dimensions = 0;
        std::size_t loops_before = 0;
        std::size_t loops = 0;
        bool is_list = false; // of initialisers or enumerators
    };

    bool starts_list() const {
        using namespace clang;
        if (last_ == tok::l_brace) {
            return levels_.back().is_list;
        }
        return last_ == tok::equal || last_ == tok::comma || last_ == tok::l_paren || last_ == tok::r_square ||
               last_ == tok::identifier || last_ == tok::kw_return || last_ == tok::greater;
    }

    std::vector<Level> levels_{Level{}};
    bool ends_ = false; // a statement has ended, unless `else` follows
    clang::tok::TokenKind last_ = clang::tok::unknown;
};

void refuse(clang::Preprocessor& preprocessor, std::vector<clang::Token>& tokens, std::size_t at, const char* what,
            std::size_t limit) {
    clang::DiagnosticsEngine& diagnostics = preprocessor.getDiagnostics();
    const unsigned id = diagnostics.getCustomDiagID(clang::DiagnosticsEngine::Error, "%0 (the limit is %1)");
    diagnostics.Report(tokens[at].getLocation(), id) << what << std::to_string(limit);
    tokens.back().startToken();
    tokens.back().setKind(clang::tok::eof);
    tokens.back().setLocation(tokens[at].getLocation());
    tokens.erase(tokens.begin(), tokens.end() - 1);
}

} // namespace

void refuse_deep_nesting(clang::Preprocessor& preprocessor, std::vector<clang::Token>& tokens) {
    Nesting nesting;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
        if (nesting.add(tokens[i]) > most_levels) {
            return refuse(preprocessor, tokens, i, "an expression or statement with too many operators", most_levels);
        }
        if (nesting.loops() > most_loops) {
            return refuse(preprocessor, tokens, i, "too many loops inside of each other", most_loops);
        }
        if (nesting.dimensions() > most_dimensions) {
            return refuse(preprocessor, tokens, i, "an array of too many dimensions", most_dimensions);
        }
    }
}

void refuse_so_many_tokens(clang::Preprocessor& preprocessor, std::vector<clang::Token>& tokens) {
    refuse(preprocessor, tokens, tokens.size() - 1, "the source is too long once its macros are expanded: too many tokens",
           most_tokens);
}

} // namespace metalki::compiler

// The rewriter's state and rules; private to the token_rewriter files.
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "clang/Basic/Diagnostic.h"
#include "clang/Basic/IdentifierTable.h"
#include "clang/Lex/Preprocessor.h"
#include "clang/Lex/Token.h"

#include "frontend/repairs.hpp"

namespace metalki::compiler::rewriting {

using clang::SourceLocation;
using clang::Token;
using llvm::StringRef;
namespace tok = clang::tok;

constexpr std::size_t none = ~std::size_t(0);

enum class ScopeKind { namespace_, class_, enum_, function, initializer };

// A member function seen in a class, for choosing among those that differ only in the address space of `this`.
struct MemberFunction {
    std::size_t begin = 0, end = 0;       // token range, end exclusive
    std::size_t name = 0, parameters = 0; // first token of its name; the ( behind it
    std::vector<std::string> spaces;      // where `this` may point to; empty: anywhere
    std::string text;                     // declaration and body without address spaces
    bool is_template = false;
    bool result_in_space = false; // returns a pointer or a reference into a named address space

    bool serves_every_space() const {
        return spaces.empty() || std::find(spaces.begin(), spaces.end(), "thread") != spaces.end();
    }
};

struct Scope {
    ScopeKind kind = ScopeKind::namespace_;
    std::size_t statement = 0;       // first token of the current statement
    int parentheses = 0;             // open ( and [ within this scope
    std::vector<std::string> spaces; // address spaces behind the parameters of the current member function
    std::map<std::string, std::vector<MemberFunction>> members;
};

struct Edit {
    std::vector<Token> before;
    std::optional<std::vector<Token>> replacement;
};

// Component numbers of a swizzle such as `xy` or `bgra`; empty when `name` is none.
std::vector<int> swizzle_indices(StringRef name);

class Rewriter {
public:
    Rewriter(clang::Preprocessor& preprocessor, std::vector<Token> tokens)
        : pp_(preprocessor), in_(std::move(tokens)), partner_(in_.size(), none) {}

    void match_brackets(); // first of all
    std::vector<Token> run();
    void apply(const Repairs& repairs);
    const std::set<unsigned>& says_thread() const { return says_thread_; }

private:
    // tokens
    StringRef name(std::size_t i) const;
    bool is_name(std::size_t i, StringRef text) const { return name(i) == text; }
    bool is(std::size_t i, tok::TokenKind kind) const { return i < in_.size() && in_[i].is(kind); }
    std::string spelling(const Token& t) const { return t.isAnnotation() ? std::string() : pp_.getSpelling(t); }
    Token word(StringRef text, SourceLocation at) const;
    Token punctuation(tok::TokenKind kind, SourceLocation at) const;
    Token literal(tok::TokenKind kind, StringRef text, SourceLocation at) const;
    Token string(StringRef text, SourceLocation at) const;
    void append_attribute(std::vector<Token>& out, StringRef attribute, std::vector<Token> arguments, SourceLocation at) const;
    void error(std::size_t i, const std::string& message);

    // edits
    Edit& edit(std::size_t i) { return edits_[i]; }
    void insert_before(std::size_t i, const std::vector<Token>& tokens);
    void replace(std::size_t i, std::vector<Token> tokens) { edit(i).replacement = std::move(tokens); }
    void remove(std::size_t i) { edit(i).replacement.emplace(); }
    void remove_range(std::size_t begin, std::size_t end);

    // structure
    void collect_declared_swizzles();
    std::size_t skip_angles(std::size_t i) const;
    std::size_t after_template_head(std::size_t i) const;
    ScopeKind classify_brace(std::size_t brace) const;
    bool opens_lambda_body(std::size_t brace) const;
    bool defines_type(std::size_t brace) const;
    bool is_address_space(std::size_t i) const;
    std::size_t variable_name_after(std::size_t i) const;
    Scope& scope() { return scopes_.back(); }

    // rules; each returns the index of the next token to look at, or `none` if it does not apply
    std::size_t rewrite_attributes(std::size_t i);
    void rewrite_attribute(std::size_t begin, std::size_t end, std::vector<Token>& out);
    std::size_t rewrite_address_space(std::size_t i);
    bool is_method_qualifier(std::size_t i) const;
    void make_static_if_local(std::size_t i);
    void array_parameter_to_pointer(std::size_t i);
    std::size_t rewrite_literal(std::size_t i);
    std::size_t rewrite_swizzle(std::size_t i);
    std::size_t end_of_accesses(std::size_t i) const;
    bool is_assigned(std::size_t i) const;
    std::vector<Token> access(StringRef function, const std::vector<int>& components, SourceLocation at) const;
    void make_component_constant(std::size_t i);
    void make_texts_constant(std::size_t begin, std::size_t end);
    std::pair<std::size_t, std::size_t> argument(std::size_t i, unsigned number) const;
    void wrap_arguments(std::size_t i, StringRef helper);
    void wrap(std::size_t begin, std::size_t end, StringRef helper);
    bool hoists_attribute(std::size_t i) const;
    std::size_t after_dimensions(std::size_t i) const;
    std::size_t rewrite_keyword(std::size_t i);
    void note_member_function(std::size_t i);
    void resolve_members();
    void say_which_objects(const MemberFunction& function);
    void return_into_space(const MemberFunction& function);
    void drop_duplicate_members(std::vector<MemberFunction>& functions);
    void dispatch_by_space(std::vector<MemberFunction>& functions, std::set<std::string>& dispatched);
    std::vector<Token> lex(StringRef text) const;
    void make_extern_function_constant(std::size_t i);
    void track_scope(std::size_t i);
    std::vector<Token> assemble() const;

    clang::Preprocessor& pp_;
    std::vector<Token> in_;
    std::vector<std::size_t> partner_; // of each bracket
    std::unordered_map<std::size_t, Edit> edits_;
    std::set<std::size_t> constant_texts_; // literals that metal::__text( ) is around
    std::vector<Scope> scopes_{Scope{}};
    std::set<unsigned> says_thread_;                    // tokens behind the word `thread`
    std::set<unsigned> known_members_, known_swizzles_; // places that a first parse decided
    std::set<std::string> declared_swizzles_;           // names such as `xy` that the source gives to members of its own
};

} // namespace metalki::compiler::rewriting

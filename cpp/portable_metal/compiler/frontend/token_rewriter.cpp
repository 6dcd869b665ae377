// MSL's tokens to C++ tokens: address spaces, attributes, swizzles, literals, threadgroup variables.
#include "frontend/token_rewriter.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>

#include "clang/Basic/Diagnostic.h"
#include "clang/Basic/IdentifierTable.h"

#include "frontend/attributes.hpp"

namespace metalki::compiler {
namespace {

using clang::SourceLocation;
using clang::Token;
using llvm::StringRef;
namespace tok = clang::tok;

constexpr std::size_t none = ~std::size_t(0);

enum class ScopeKind { namespace_, class_, enum_, function, initializer };

// A member function seen in a class, for choosing among those that differ only in the address space of `this`.
struct MemberFunction {
    std::size_t begin, end;  // token range, end exclusive
    bool serves_every_space; // unqualified, or qualified `thread`: `this` is then a generic pointer
};

struct Scope {
    ScopeKind kind = ScopeKind::namespace_;
    std::size_t statement = 0; // first token of the current statement
    int parentheses = 0;       // open ( and [ within this scope
    bool qualified = false;    // the current member function has an address space after its parameters
    bool qualified_generic = false;
    std::map<std::string, std::vector<MemberFunction>> members;
};

struct Edit {
    std::vector<Token> before;
    std::optional<std::vector<Token>> replacement;
};

std::vector<int> swizzle_indices(StringRef name) {
    for (StringRef letters : {StringRef("xyzw"), StringRef("rgba")}) {
        std::vector<int> indices;
        for (char c : name) {
            auto at = letters.find(c);
            if (at == StringRef::npos) {
                break;
            }
            indices.push_back(static_cast<int>(at));
        }
        if (indices.size() == name.size()) {
            return indices;
        }
    }
    return {};
}

bool is_assignment(const Token& t) {
    return t.isOneOf(tok::equal, tok::plusequal, tok::minusequal, tok::starequal, tok::slashequal, tok::percentequal,
                     tok::ampequal, tok::pipeequal, tok::caretequal) ||
           t.isOneOf(tok::lesslessequal, tok::greatergreaterequal, tok::plusplus, tok::minusminus);
}

class Rewriter {
public:
    Rewriter(clang::Preprocessor& preprocessor, std::vector<Token> tokens)
        : pp_(preprocessor), in_(std::move(tokens)), partner_(in_.size(), none) {}

    std::vector<Token> run();
    void apply(const Repairs& repairs);

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
    void match_brackets();
    void collect_declared_swizzles();
    std::size_t skip_angles(std::size_t i) const;
    std::size_t after_template_head(std::size_t i) const;
    ScopeKind classify_brace(std::size_t brace) const;
    bool opens_lambda_body(std::size_t brace) const;
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
    std::size_t rewrite_keyword(std::size_t i);
    void note_member_function(std::size_t i);
    void drop_duplicate_members();
    void make_extern_function_constant(std::size_t i);
    void track_scope(std::size_t i);
    std::vector<Token> assemble() const;

    clang::Preprocessor& pp_;
    std::vector<Token> in_;
    std::vector<std::size_t> partner_; // of each bracket
    std::unordered_map<std::size_t, Edit> edits_;
    std::vector<Scope> scopes_{Scope{}};
    std::set<std::string> declared_swizzles_; // names such as `xy` that the source gives to members of its own
};

StringRef Rewriter::name(std::size_t i) const {
    if (i >= in_.size() || in_[i].isAnnotation() || in_[i].isLiteral() || !in_[i].getIdentifierInfo()) {
        return {};
    }
    return in_[i].getIdentifierInfo()->getName();
}

Token Rewriter::word(StringRef text, SourceLocation at) const {
    Token t;
    t.startToken();
    clang::IdentifierInfo* info = pp_.getIdentifierInfo(text);
    t.setIdentifierInfo(info);
    t.setKind(info->getTokenID());
    t.setLocation(at);
    t.setLength(static_cast<unsigned>(text.size()));
    return t;
}

Token Rewriter::punctuation(tok::TokenKind kind, SourceLocation at) const {
    Token t;
    t.startToken();
    t.setKind(kind);
    t.setLocation(at);
    t.setLength(1);
    return t;
}

Token Rewriter::literal(tok::TokenKind kind, StringRef text, SourceLocation at) const {
    Token t;
    t.startToken();
    t.setKind(kind);
    pp_.CreateString(text, t, at, at);
    return t;
}

Token Rewriter::string(StringRef text, SourceLocation at) const {
    std::string quoted = "\"";
    for (char c : text) {
        if (c == '"' || c == '\\') {
            quoted += '\\';
        }
        quoted += c;
    }
    return literal(tok::string_literal, quoted + '"', at);
}

// __attribute__((attribute(arguments)))
void Rewriter::append_attribute(std::vector<Token>& out, StringRef attribute, std::vector<Token> arguments,
                                SourceLocation at) const {
    out.push_back(word("__attribute__", at));
    out.push_back(punctuation(tok::l_paren, at));
    out.push_back(punctuation(tok::l_paren, at));
    out.push_back(word(attribute, at));
    if (!arguments.empty()) {
        out.push_back(punctuation(tok::l_paren, at));
        out.insert(out.end(), arguments.begin(), arguments.end());
        out.push_back(punctuation(tok::r_paren, at));
    }
    out.push_back(punctuation(tok::r_paren, at));
    out.push_back(punctuation(tok::r_paren, at));
}

void Rewriter::error(std::size_t i, const std::string& message) {
    auto& diagnostics = pp_.getDiagnostics();
    auto id = diagnostics.getDiagnosticIDs()->getCustomDiagID(clang::DiagnosticIDs::Error, message);
    diagnostics.Report(in_[i].getLocation(), id);
}

void Rewriter::insert_before(std::size_t i, const std::vector<Token>& tokens) {
    auto& before = edit(i).before;
    before.insert(before.end(), tokens.begin(), tokens.end());
}

void Rewriter::remove_range(std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
        edits_[i] = Edit{{}, std::vector<Token>{}};
    }
}

void Rewriter::match_brackets() {
    std::vector<std::size_t> open;
    auto close = [&](std::size_t i, tok::TokenKind opening) {
        while (!open.empty() && !in_[open.back()].is(opening)) {
            open.pop_back(); // an unbalanced bracket: Clang reports it
        }
        if (!open.empty()) {
            partner_[i] = open.back();
            partner_[open.back()] = i;
            open.pop_back();
        }
    };
    for (std::size_t i = 0; i < in_.size(); ++i) {
        if (in_[i].isOneOf(tok::l_paren, tok::l_square, tok::l_brace)) {
            open.push_back(i);
        } else if (in_[i].is(tok::r_paren)) {
            close(i, tok::l_paren);
        } else if (in_[i].is(tok::r_square)) {
            close(i, tok::l_square);
        } else if (in_[i].is(tok::r_brace)) {
            close(i, tok::l_brace);
        }
    }
}

void Rewriter::collect_declared_swizzles() {
    for (std::size_t i = 1; i < in_.size(); ++i) {
        StringRef text = name(i);
        if (text.size() < 2 || text.size() > 4 || swizzle_indices(text).empty()) {
            continue;
        }
        bool is_access = in_[i - 1].isOneOf(tok::period, tok::arrow);
        // A declarator: follows a type name or * and is followed by ; , = or [.
        bool follows_type = !name(i - 1).empty() || in_[i - 1].isOneOf(tok::star, tok::amp, tok::greater, tok::comma);
        if (!is_access && follows_type && in_[i + 1].isOneOf(tok::semi, tok::comma, tok::l_square)) {
            declared_swizzles_.insert(text.str());
        }
    }
}

bool Rewriter::is_address_space(std::size_t i) const {
    if (!is(i, tok::identifier)) {
        return false;
    }
    StringRef text = name(i);
    return text == "device" || text == "constant" || text == "threadgroup" || text == "thread";
}

// `i` is at `<`; the index after the matching `>`, or i + 1 when these are no brackets.
std::size_t Rewriter::skip_angles(std::size_t i) const {
    int depth = 0;
    for (std::size_t k = i; k < in_.size(); ++k) {
        if (in_[k].is(tok::less)) {
            ++depth;
        } else if (in_[k].is(tok::greater)) {
            --depth;
        } else if (in_[k].is(tok::greatergreater)) {
            depth -= 2;
        } else if (in_[k].isOneOf(tok::l_paren, tok::l_square, tok::l_brace) && partner_[k] != none) {
            k = partner_[k];
        } else if (in_[k].isOneOf(tok::semi, tok::eof)) {
            return i + 1;
        }
        if (depth <= 0) {
            return k + 1;
        }
    }
    return i + 1;
}

std::size_t Rewriter::after_template_head(std::size_t i) const {
    while (is(i, tok::kw_template) && is(i + 1, tok::less)) {
        i = skip_angles(i + 1);
    }
    return i;
}

bool Rewriter::opens_lambda_body(std::size_t brace) const {
    for (std::size_t k = brace; k-- > 0;) {
        if (in_[k].is(tok::r_square)) {
            std::size_t open = partner_[k];
            return open != none && open > 0 && (name(open - 1).empty() || in_[open - 1].is(tok::kw_return)) &&
                   !in_[open - 1].isOneOf(tok::r_square, tok::r_paren);
        }
        if (in_[k].is(tok::r_paren)) {
            std::size_t open = partner_[k];
            if (open == none || open == 0) {
                return false;
            }
            if (in_[open - 1].is(tok::r_square)) {
                k = open;
                continue;
            }
            return false;
        }
        // specifiers and a trailing return type may stand between the parameters and the body
        if (!in_[k].isOneOf(tok::kw_mutable, tok::kw_constexpr, tok::kw_noexcept, tok::arrow, tok::coloncolon, tok::star,
                            tok::amp, tok::less, tok::greater) &&
            name(k).empty()) {
            return false;
        }
        if (brace - k > 24) {
            return false;
        }
    }
    return false;
}

ScopeKind Rewriter::classify_brace(std::size_t brace) const {
    const Scope& outer = scopes_.back();
    if (opens_lambda_body(brace)) {
        return ScopeKind::function;
    }
    if (outer.parentheses > 0 || outer.kind == ScopeKind::initializer) {
        return ScopeKind::initializer;
    }
    bool is_class = false, is_enum = false, is_namespace = false, has_parameters = false, has_equal = false;
    for (std::size_t k = after_template_head(outer.statement); k < brace; ++k) {
        if (in_[k].isOneOf(tok::l_paren, tok::l_square) && partner_[k] != none && partner_[k] < brace) {
            bool is_attribute = k > 0 && (in_[k - 1].isOneOf(tok::kw___attribute, tok::kw_alignas) || in_[k].is(tok::l_square));
            has_parameters |= !is_attribute;
            k = partner_[k];
        } else if (in_[k].isOneOf(tok::kw_struct, tok::kw_class, tok::kw_union)) {
            is_class |= !has_parameters;
        } else if (in_[k].is(tok::kw_enum)) {
            is_enum |= !has_parameters;
        } else if (in_[k].isOneOf(tok::kw_namespace, tok::kw_extern)) {
            is_namespace = true;
        } else if (in_[k].is(tok::equal)) {
            has_equal |= !(k > 0 && in_[k - 1].is(tok::kw_operator));
        }
    }
    if (has_equal) {
        return ScopeKind::initializer;
    }
    if (outer.kind == ScopeKind::function) {
        bool is_block = brace == outer.statement ||
                        in_[brace - 1].isOneOf(tok::r_paren, tok::kw_else, tok::kw_do, tok::colon) ||
                        in_[brace - 1].isOneOf(tok::r_brace, tok::semi, tok::l_brace);
        if (is_enum) {
            return ScopeKind::enum_;
        }
        return is_class ? ScopeKind::class_ : (is_block ? ScopeKind::function : ScopeKind::initializer);
    }
    if (is_enum) {
        return ScopeKind::enum_;
    }
    if (is_class && !has_parameters) {
        return ScopeKind::class_;
    }
    if (is_namespace && !has_parameters) {
        return ScopeKind::namespace_;
    }
    return has_parameters ? ScopeKind::function : ScopeKind::initializer;
}

// The index of the name that a declaration starting with the address space at `i` gives to a plain variable,
// or `none` for pointers, references, functions and casts.
std::size_t Rewriter::variable_name_after(std::size_t i) const {
    std::size_t last_name = none;
    int names = 0;
    for (std::size_t k = i + 1; k < in_.size(); ++k) {
        const Token& t = in_[k];
        if (t.is(tok::less)) {
            k = skip_angles(k) - 1;
        } else if (t.isOneOf(tok::kw_decltype, tok::kw___attribute, tok::kw_alignas) && is(k + 1, tok::l_paren) &&
                   partner_[k + 1] != none) {
            k = partner_[k + 1];
            names += t.is(tok::kw_decltype);
        } else if (t.isOneOf(tok::semi, tok::equal, tok::l_square, tok::comma, tok::l_brace, tok::r_paren)) {
            return names > 1 ? last_name : none;
        } else if (t.is(tok::coloncolon)) {
            --names;
        } else if (t.isOneOf(tok::kw_const, tok::kw_volatile, tok::kw_constexpr, tok::kw_static, tok::kw_typename) ||
                   is_address_space(k)) {
            continue;
        } else if (!name(k).empty()) {
            ++names;
            last_name = k;
        } else {
            return none;
        }
    }
    return none;
}

std::size_t Rewriter::rewrite_attributes(std::size_t i) {
    if (!is(i, tok::l_square) || !is(i + 1, tok::l_square) || partner_[i] == none || partner_[i + 1] == none ||
        partner_[i] != partner_[i + 1] + 1) {
        return none;
    }
    std::size_t begin = i + 2, end = partner_[i + 1];
    if (name(begin).empty() || classify_attribute(name(begin).str()) == AttributeClass::standard) {
        return none;
    }
    std::vector<Token> out;
    for (std::size_t k = begin; k < end;) {
        std::size_t stop = k;
        while (stop < end && !in_[stop].is(tok::comma)) {
            bool is_open = in_[stop].isOneOf(tok::l_paren, tok::l_square, tok::l_brace) && partner_[stop] != none;
            stop = is_open ? partner_[stop] + 1 : stop + 1;
        }
        rewrite_attribute(k, std::min(stop, end), out);
        k = stop + 1;
    }
    for (std::size_t k = i; k <= partner_[i]; ++k) {
        remove(k);
    }
    replace(i, std::move(out));
    return partner_[i] + 1;
}

void Rewriter::rewrite_attribute(std::size_t begin, std::size_t end, std::vector<Token>& out) {
    std::string attribute = name(begin).str();
    SourceLocation at = in_[begin].getLocation();
    if (classify_attribute(attribute) == AttributeClass::unknown) {
        std::string near = nearest_attribute(attribute);
        error(begin, "unknown attribute '" + attribute + "'" + (near.empty() ? "" : "; did you mean '" + near + "'?"));
        return;
    }
    bool on_parameter = scope().parentheses > 0;
    std::vector<Token> arguments{string(std::string(annotation_prefix) + attribute, at)};
    if (is(begin + 1, tok::l_paren) && begin + 2 < end - 1) {
        arguments.push_back(punctuation(tok::comma, at));
        if (attribute == "function_constant" && on_parameter) {
            // The condition is no constant expression for Clang: it is evaluated when the kernel is specialised.
            std::string text;
            for (std::size_t k = begin + 2; k < end - 1; ++k) {
                text += spelling(in_[k]) + " ";
            }
            arguments.push_back(string(text, at));
        } else {
            arguments.insert(arguments.end(), in_.begin() + begin + 2, in_.begin() + end - 1);
        }
    }
    if (attribute == "function_constant" && !on_parameter && scope().kind != ScopeKind::function) {
        make_extern_function_constant(begin);
    }
    append_attribute(out, "annotate", std::move(arguments), at);
}

void Rewriter::make_extern_function_constant(std::size_t i) {
    std::size_t statement = scope().statement;
    for (std::size_t k = statement; k < i; ++k) {
        if (in_[k].isOneOf(tok::kw_static, tok::kw_constexpr, tok::kw_inline)) {
            remove(k);
        }
    }
    insert_before(statement, {word("extern", in_[statement].getLocation())});
}

// An address space behind the parameters of a member function: it says where `this` points to.
bool Rewriter::is_method_qualifier(std::size_t i) const {
    if (i == 0 || i + 1 >= in_.size()) {
        return false;
    }
    bool ends_declarator =
        in_[i + 1].isOneOf(tok::l_brace, tok::semi, tok::equal, tok::colon, tok::kw_const, tok::kw_noexcept, tok::arrow) ||
        is_name(i + 1, "override") || is_name(i + 1, "final") || is_address_space(i + 1);
    if (!ends_declarator) {
        return false;
    }
    std::size_t k = i - 1;
    while (k > 0 &&
           (in_[k].isOneOf(tok::kw_const, tok::kw_volatile, tok::kw_noexcept, tok::kw_mutable) || is_address_space(k))) {
        --k;
    }
    return in_[k].is(tok::r_paren) && partner_[k] != none;
}

std::size_t Rewriter::rewrite_address_space(std::size_t i) {
    if (!is_address_space(i)) {
        return none;
    }
    StringRef space = name(i);
    if (is_method_qualifier(i)) {
        scope().qualified = true;
        scope().qualified_generic |= space == "thread";
        remove(i);
        return i + 1;
    }
    SourceLocation at = in_[i].getLocation();
    std::vector<Token> out;
    if (space == "constant" && !is(i + 1, tok::kw_const) && !(i > 0 && in_[i - 1].is(tok::kw_const))) {
        out.push_back(word("const", at));
    }
    if (space != "thread") {
        StringRef attribute = space == "device"     ? "opencl_global_device"
                              : space == "constant" ? "opencl_global_host"
                                                    : "opencl_local";
        append_attribute(out, attribute, {}, at);
    }
    bool is_parameter = scope().parentheses > 0;
    if (space == "threadgroup" && !is_parameter && scope().kind != ScopeKind::class_ && variable_name_after(i) != none) {
        append_attribute(out, "section", {string(threadgroup_section, at)}, at);
    }
    replace(i, std::move(out));
    if (is_parameter) {
        array_parameter_to_pointer(i);
    } else if (space == "threadgroup" || space == "constant") {
        make_static_if_local(i);
    }
    return i + 1;
}

// Variables of function scope that live in an address space of their own have static storage for Clang.
void Rewriter::make_static_if_local(std::size_t i) {
    if (scope().kind != ScopeKind::function || variable_name_after(i) == none) {
        return;
    }
    std::size_t statement = scope().statement;
    for (std::size_t k = statement; k < i; ++k) {
        if (in_[k].is(tok::kw_static)) {
            return;
        }
        if (in_[k].is(tok::kw_alignas) && is(k + 1, tok::l_paren) && partner_[k + 1] != none) {
            k = partner_[k + 1];
        } else if (!in_[k].isOneOf(tok::kw_const, tok::kw_constexpr, tok::kw_volatile) &&
                   !(is(k, tok::l_square) || edits_.count(k))) {
            return;
        }
    }
    insert_before(statement, {word("static", in_[statement].getLocation())});
}

// `threadgroup T a[N][M]` as a parameter is a pointer `T (*a)[M]` in the same space, not one to generic memory.
void Rewriter::array_parameter_to_pointer(std::size_t i) {
    std::size_t declared = variable_name_after(i);
    if (declared == none || !is(declared + 1, tok::l_square) || is(declared + 2, tok::l_square) ||
        partner_[declared + 1] == none) {
        return;
    }
    SourceLocation at = in_[declared].getLocation();
    std::size_t close = partner_[declared + 1];
    bool more_dimensions = is(close + 1, tok::l_square) && !is(close + 2, tok::l_square);
    if (more_dimensions) {
        insert_before(declared, {punctuation(tok::l_paren, at), punctuation(tok::star, at)});
        insert_before(close + 1, {punctuation(tok::r_paren, at)});
    } else {
        insert_before(declared, {punctuation(tok::star, at)});
    }
    for (std::size_t k = declared + 1; k <= close; ++k) {
        remove(k);
    }
}

// MSL has no double: a literal without suffix is float; h and bf make half and bfloat.
std::size_t Rewriter::rewrite_literal(std::size_t i) {
    if (!is(i, tok::numeric_constant)) {
        return none;
    }
    std::string text = spelling(in_[i]);
    StringRef lower(text);
    SourceLocation at = in_[i].getLocation();
    bool hexadecimal = lower.starts_with_insensitive("0x");
    bool floating =
        lower.contains('.') || (hexadecimal ? lower.find_first_of("pP") : lower.find_first_of("eE")) != StringRef::npos;
    if (!hexadecimal && (lower.ends_with("bf") || lower.ends_with("BF"))) {
        std::string digits = lower.drop_back(2).str();
        Token number = literal(tok::numeric_constant, digits + (floating ? "f" : ".0f"), at);
        replace(i, {punctuation(tok::l_paren, at), punctuation(tok::l_paren, at), word("bfloat", at),
                    punctuation(tok::r_paren, at), number, punctuation(tok::r_paren, at)});
        return i + 1;
    }
    if (!floating) {
        if (!hexadecimal && lower.ends_with_insensitive("h")) {
            replace(i, {literal(tok::numeric_constant, lower.drop_back(1).str() + ".0f16", at)});
            return i + 1;
        }
        return none;
    }
    char last = text.back();
    if (last == 'h' || last == 'H') {
        replace(i, {literal(tok::numeric_constant, lower.drop_back(1).str() + "f16", at)});
        return i + 1;
    }
    if ((last >= '0' && last <= '9') || last == '.') {
        replace(i, {literal(tok::numeric_constant, text + "f", at)});
        return i + 1;
    }
    if (last == 'l' || last == 'L') {
        error(i, "'long double' literals are not supported in Metal");
    }
    return none;
}

std::size_t Rewriter::rewrite_swizzle(std::size_t i) {
    StringRef text = name(i);
    if (i == 0 || text.size() < 2 || text.size() > 4 || !in_[i - 1].isOneOf(tok::period, tok::arrow) ||
        is(i + 1, tok::l_paren)) {
        return none;
    }
    std::vector<int> indices = swizzle_indices(text);
    if (indices.empty() || declared_swizzles_.count(text.str())) {
        return none;
    }
    bool assigned = is_assignment(in_[i + 1]);
    for (std::size_t k = i - 1; !assigned && k-- > 0;) { // ++v.xy: the operator stands before the whole postfix expression
        if (in_[k].isOneOf(tok::r_paren, tok::r_square) && partner_[k] != none) {
            k = partner_[k];
        } else if (in_[k].isOneOf(tok::plusplus, tok::minusminus)) {
            assigned = true;
        } else if (name(k).empty() && !in_[k].isOneOf(tok::period, tok::arrow, tok::coloncolon)) {
            break;
        } else if (!name(k).empty() && k > 0 && !in_[k - 1].isOneOf(tok::period, tok::arrow, tok::coloncolon)) {
            assigned = in_[k - 1].isOneOf(tok::plusplus, tok::minusminus);
            break;
        }
    }
    SourceLocation at = in_[i].getLocation();
    std::vector<Token> out{word("template", at), word(assigned ? "__l" : "__g", at), punctuation(tok::less, at)};
    for (std::size_t k = 0; k < indices.size(); ++k) {
        if (k > 0) {
            out.push_back(punctuation(tok::comma, at));
        }
        out.push_back(literal(tok::numeric_constant, std::to_string(indices[k]), at));
    }
    for (auto kind : {tok::greater, tok::l_paren, tok::r_paren}) {
        out.push_back(punctuation(kind, at));
    }
    replace(i, std::move(out));
    return i + 1;
}

std::size_t Rewriter::rewrite_keyword(std::size_t i) {
    const Token& t = in_[i];
    SourceLocation at = t.getLocation();
    if (t.is(tok::kw_double)) {
        error(i, "'double' is not supported in Metal");
        replace(i, {word("float", at)});
        return i + 1;
    }
    struct Forbidden {
        tok::TokenKind kind;
        const char* what;
    };
    static constexpr Forbidden forbidden[] = {
        {tok::kw_goto, "'goto' statements are"},
        {tok::kw_new, "'new' expressions are"},
        {tok::kw_delete, "'delete' expressions are"},
        {tok::kw_virtual, "'virtual' functions are"},
        {tok::kw_thread_local, "'thread_local' variables are"},
        {tok::kw_dynamic_cast, "'dynamic_cast' is"},
        {tok::kw_try, "exceptions ('try') are"},
        {tok::kw_throw, "exceptions ('throw') are"},
    };
    for (const auto& [kind, what] : forbidden) {
        bool deleted_function = kind == tok::kw_delete && i > 0 && in_[i - 1].is(tok::equal);
        bool operator_name = i > 0 && in_[i - 1].is(tok::kw_operator);
        if (t.is(kind) && !deleted_function && !operator_name) {
            error(i, std::string(what) + " not supported in Metal");
            return none;
        }
    }
    StringRef text = name(i);
    bool starts_function =
        scope().parentheses == 0 && scope().kind != ScopeKind::function && scope().kind != ScopeKind::initializer;
    if (starts_function && (text == "kernel" || text == "vertex" || text == "fragment") && t.is(tok::identifier) &&
        !in_[i + 1].isOneOf(tok::semi, tok::equal, tok::comma, tok::coloncolon)) {
        std::vector<Token> out;
        append_attribute(out, "annotate", {string(std::string(annotation_prefix) + text.str(), at)}, at);
        replace(i, std::move(out));
        return i + 1;
    }
    if (text == "coherent" && is(i + 1, tok::l_paren) && partner_[i + 1] == i + 3) {
        remove_range(i, i + 4);
        return i + 4;
    }
    if (text == "is_function_constant_defined" && is(i + 1, tok::l_paren) && partner_[i + 1] != none) {
        // The address, not the value: an unset constant may be asked about.
        replace(i, {word("__metalki_is_defined", at)});
        insert_before(i + 2, {punctuation(tok::amp, at)});
        return i + 1;
    }
    return none;
}

// Called at the token that ends the declarator of a possible member function: { ; = or :
void Rewriter::note_member_function(std::size_t i) {
    if (scope().kind != ScopeKind::class_ || scope().parentheses > 0 ||
        !in_[i].isOneOf(tok::l_brace, tok::semi, tok::equal, tok::colon)) {
        return;
    }
    std::size_t k = i;
    while (k > scope().statement &&
           (in_[k - 1].isOneOf(tok::kw_const, tok::kw_volatile, tok::kw_noexcept) || is_address_space(k - 1))) {
        --k;
    }
    if (k == scope().statement || !in_[k - 1].is(tok::r_paren) || partner_[k - 1] == none) {
        return;
    }
    std::size_t open = partner_[k - 1];
    std::size_t first = open;
    for (std::size_t back = open; back > scope().statement && open - back < 4; --back) {
        if (in_[back - 1].is(tok::kw_operator)) {
            first = back - 1;
            break;
        }
    }
    if (first == open && open > scope().statement && !name(open - 1).empty()) {
        first = open - 1;
    } else if (first == open && in_[open - 1].is(tok::greater)) { // a constructor named with its template arguments
        std::size_t back = open - 1;
        while (back > scope().statement && !in_[back].is(tok::less)) {
            --back;
        }
        first = back > scope().statement ? back - 1 : open;
    }
    if (first == open) {
        return;
    }
    std::string key;
    for (std::size_t t = scope().statement; t < after_template_head(scope().statement); ++t) {
        key += spelling(in_[t]) + " "; // template parameters are part of the signature
    }
    for (std::size_t t = first; t < i; ++t) {
        if (!is_address_space(t) || t < k) {
            key += spelling(in_[t]) + " ";
        }
    }
    std::size_t end = i;
    if (in_[i].is(tok::colon)) { // constructor initialisers: name(args) or name{args}, then the body
        std::size_t t = i + 1;
        while (t < in_.size()) {
            while (t < in_.size() && !in_[t].isOneOf(tok::l_paren, tok::l_brace, tok::semi)) {
                t = in_[t].is(tok::less) ? skip_angles(t) : t + 1;
            }
            if (t >= in_.size() || partner_[t] == none) {
                return;
            }
            t = partner_[t] + 1;
            if (!is(t, tok::comma)) {
                break;
            }
        }
        end = t;
    }
    while (end < in_.size() && !in_[end].isOneOf(tok::l_brace, tok::semi)) {
        ++end;
    }
    if (end >= in_.size() || (in_[end].is(tok::l_brace) && partner_[end] == none)) {
        return;
    }
    end = in_[end].is(tok::l_brace) ? partner_[end] + 1 : end + 1;
    bool serves_all = !scope().qualified || scope().qualified_generic;
    scope().members[key].push_back({scope().statement, end, serves_all});
    scope().qualified = scope().qualified_generic = false;
}

// Members that differ only in the space of `this` are one function for Clang; the generic one serves all.
void Rewriter::drop_duplicate_members() {
    for (auto& [key, functions] : scope().members) {
        if (functions.size() < 2) {
            continue;
        }
        auto kept =
            std::find_if(functions.begin(), functions.end(), [](const MemberFunction& f) { return f.serves_every_space; });
        if (kept == functions.end()) {
            kept = functions.begin();
        }
        bool all_generic = std::all_of(functions.begin(), functions.end(), [](auto& f) { return f.serves_every_space; });
        if (all_generic) {
            continue; // a real redefinition: Clang's to report
        }
        for (auto f = functions.begin(); f != functions.end(); ++f) {
            if (f != kept) {
                remove_range(f->begin, f->end);
            }
        }
    }
}

void Rewriter::track_scope(std::size_t i) {
    const Token& t = in_[i];
    if (t.is(tok::l_brace)) {
        Scope inner;
        inner.kind = classify_brace(i);
        inner.statement = i + 1;
        scopes_.push_back(std::move(inner));
        return;
    }
    if (t.is(tok::r_brace)) {
        if (scopes_.size() == 1) {
            return;
        }
        if (scope().kind == ScopeKind::class_) {
            drop_duplicate_members();
        }
        bool was_block = scope().kind != ScopeKind::initializer;
        bool was_class = scope().kind == ScopeKind::class_ || scope().kind == ScopeKind::enum_;
        scopes_.pop_back();
        if (was_block && !was_class && scope().parentheses == 0) {
            scope().statement = i + 1;
        }
        return;
    }
    if (t.isOneOf(tok::l_paren, tok::l_square)) {
        ++scope().parentheses;
    } else if (t.isOneOf(tok::r_paren, tok::r_square)) {
        scope().parentheses = std::max(0, scope().parentheses - 1);
    } else if (scope().parentheses == 0) {
        bool ends_label = t.is(tok::colon) && i > 0 &&
                          (in_[i - 1].isOneOf(tok::kw_public, tok::kw_private, tok::kw_protected, tok::kw_default) ||
                           is(scope().statement, tok::kw_case));
        if (t.is(tok::semi) || ends_label) {
            scope().statement = i + 1;
            scope().qualified = scope().qualified_generic = false;
        }
    }
}

void Rewriter::apply(const Repairs& repairs) {
    auto count = [&](const std::map<unsigned, int>& places, std::size_t i) {
        auto found = places.find(in_[i].getLocation().getRawEncoding());
        return found == places.end() ? 0 : found->second;
    };
    auto close = [&](const std::map<unsigned, int>& places) {
        for (std::size_t i = 0; i + 1 < in_.size() && !places.empty(); ++i) {
            for (int n = count(places, i); n > 0; --n) {
                insert_before(i + 1, {punctuation(tok::r_paren, in_[i].getLocation())});
            }
        }
    };
    auto open = [&](const std::map<unsigned, int>& places, StringRef helper) {
        for (std::size_t i = 0; i < in_.size() && !places.empty(); ++i) {
            for (int n = count(places, i); n > 0; --n) {
                SourceLocation at = in_[i].getLocation();
                insert_before(
                    i, {word("metal", at), punctuation(tok::coloncolon, at), word(helper, at), punctuation(tok::l_paren, at)});
            }
        }
    };
    close(repairs.widen_end);
    close(repairs.load_end);
    open(repairs.load_begin, "__load");
    open(repairs.widen_begin, "__widen");
}

std::vector<Token> Rewriter::run() {
    match_brackets();
    collect_declared_swizzles();
    for (std::size_t i = 0; i < in_.size();) {
        if (in_[i].isAnnotation()) {
            if (scope().statement == i) {
                scope().statement = i + 1; // a pragma is no part of the statement behind it
            }
            ++i;
            continue;
        }
        std::size_t next = rewrite_attributes(i);
        for (auto rule : {&Rewriter::rewrite_address_space, &Rewriter::rewrite_literal, &Rewriter::rewrite_swizzle,
                          &Rewriter::rewrite_keyword}) {
            if (next == none) {
                next = (this->*rule)(i);
            }
        }
        if (next != none) {
            i = next;
            continue;
        }
        note_member_function(i);
        track_scope(i);
        ++i;
    }
    return assemble();
}

std::vector<Token> Rewriter::assemble() const {
    std::vector<Token> out;
    out.reserve(in_.size() + in_.size() / 4);
    for (std::size_t i = 0; i < in_.size(); ++i) {
        auto found = edits_.find(i);
        if (found == edits_.end()) {
            out.push_back(in_[i]);
            continue;
        }
        const Edit& e = found->second;
        out.insert(out.end(), e.before.begin(), e.before.end());
        if (e.replacement) {
            out.insert(out.end(), e.replacement->begin(), e.replacement->end());
        } else {
            out.push_back(in_[i]);
        }
    }
    return out;
}

} // namespace

std::vector<clang::Token> rewrite_msl_tokens(clang::Preprocessor& preprocessor, std::vector<clang::Token> tokens,
                                             const Repairs& repairs) {
    Rewriter rewriter(preprocessor, std::move(tokens));
    rewriter.apply(repairs);
    return rewriter.run();
}

} // namespace metalki::compiler

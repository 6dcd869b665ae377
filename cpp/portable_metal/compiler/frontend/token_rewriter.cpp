// MSL's tokens to C++ tokens: brackets, scopes, and the walk that applies the rules.
#include "frontend/token_rewriter.hpp"
#include "frontend/rewriter.hpp"

namespace metalki::compiler::rewriting {
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
        if (!is_access && follows_type &&
            in_[i + 1].isOneOf(tok::semi, tok::comma, tok::l_square, tok::colon, tok::equal, tok::l_brace)) {
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
        bool compares = k > i && in_[k - 1].isOneOf(tok::r_paren, tok::numeric_constant); // sizeof(T) < 8
        if (in_[k].is(tok::less) && !compares) {
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

// `struct Name {`
bool Rewriter::defines_type(std::size_t brace) const {
    return brace > 1 && !name(brace - 1).empty() && in_[brace - 2].isOneOf(tok::kw_struct, tok::kw_union, tok::kw_class);
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
        } else if (t.is(tok::l_brace) && partner_[k] != none &&
                   (in_[k - 1].isOneOf(tok::kw_struct, tok::kw_union, tok::kw_class) || defines_type(k))) {
            k = partner_[k];
            names += names == 0;
        } else if (t.isOneOf(tok::semi, tok::equal, tok::l_square, tok::comma, tok::l_brace, tok::r_paren)) {
            return names > 1 ? last_name : none;
        } else if (t.is(tok::coloncolon)) {
            --names;
        } else if (t.isOneOf(tok::kw_const, tok::kw_volatile, tok::kw_constexpr, tok::kw_static, tok::kw_typename,
                             tok::kw_struct, tok::kw_union, tok::kw_class) ||
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
            resolve_members();
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
            scope().spaces.clear();
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
                insert_before(i, {word(helper, at), punctuation(tok::l_paren, at)});
            }
        }
    };
    close(repairs.widen_end);
    close(repairs.load_end);
    open(repairs.load_begin, "__load");
    open(repairs.widen_begin, "__widen");
    known_members_ = repairs.members;
    known_swizzles_ = repairs.swizzles;
    bool any = !repairs.constant_components.empty() || !repairs.calls_by_value.empty() || !repairs.constant_texts.empty() ||
               !repairs.constant_text_arguments.empty() || !repairs.widened_arguments.empty() ||
               !repairs.ambiguous_calls.empty();
    for (std::size_t i = 0; any && i < in_.size(); ++i) {
        unsigned at = in_[i].getLocation().getRawEncoding();
        if (repairs.constant_components.count(at)) {
            make_component_constant(i);
        }
        if (repairs.calls_by_value.count(at)) {
            wrap_arguments(i, "__value");
        }
        if (repairs.ambiguous_calls.count(at)) {
            wrap_arguments(i, "__keep_space");
        }
        if (auto found = repairs.constant_texts.find(at); found != repairs.constant_texts.end()) {
            std::size_t end = i;
            while (end + 1 < in_.size() && !is(end, tok::semi) && in_[end].getLocation().getRawEncoding() != found->second) {
                ++end;
            }
            make_texts_constant(i, end + 1);
        }
        for (auto call = repairs.constant_text_arguments.lower_bound({at, 0});
             call != repairs.constant_text_arguments.end() && call->first == at; ++call) {
            auto [begin, end] = argument(i, call->second);
            make_texts_constant(begin, end);
        }
        for (auto call = repairs.widened_arguments.lower_bound({at, 0});
             call != repairs.widened_arguments.end() && call->first == at; ++call) {
            auto [begin, end] = argument(i, call->second);
            wrap(begin, end, "__widen");
        }
    }
}

// Neighbouring literals are one.
void Rewriter::make_texts_constant(std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
        if (!is(i, tok::string_literal) || !constant_texts_.insert(i).second) {
            continue;
        }
        SourceLocation at = in_[i].getLocation();
        insert_before(i, {word("__text", at), punctuation(tok::l_paren, at)});
        while (is(i + 1, tok::string_literal)) {
            ++i;
        }
        insert_before(i + 1, {punctuation(tok::r_paren, at)});
    }
}

// `i` begins a call; its arguments count from 1. First token and the one behind, which are the same when there is none.
std::pair<std::size_t, std::size_t> Rewriter::argument(std::size_t i, unsigned number) const {
    constexpr std::size_t longest_name = 32;
    std::size_t open = i;
    while (open < i + longest_name && open < in_.size() && !in_[open].isOneOf(tok::l_paren, tok::l_brace, tok::semi)) {
        ++open;
    }
    if (open >= in_.size() || !in_[open].isOneOf(tok::l_paren, tok::l_brace) || partner_[open] == none) {
        return {0, 0};
    }
    std::size_t begin = open + 1;
    for (std::size_t k = begin; k <= partner_[open]; ++k) {
        if (k == partner_[open] || in_[k].is(tok::comma)) {
            if (--number == 0) {
                return {begin, k};
            }
            begin = k + 1;
        } else if (in_[k].isOneOf(tok::l_paren, tok::l_square, tok::l_brace) && partner_[k] != none) {
            k = partner_[k];
        }
    }
    return {0, 0};
}

// `i` starts an expression; its last single component becomes a call that Clang can evaluate.
void Rewriter::make_component_constant(std::size_t i) {
    std::size_t component = none;
    std::size_t k = is(i, tok::l_paren) && partner_[i] != none ? partner_[i] + 1 : i + 1;
    while (k < in_.size()) {
        if (in_[k].isOneOf(tok::l_paren, tok::l_square) && partner_[k] != none) {
            k = partner_[k] + 1;
        } else if (in_[k].isOneOf(tok::period, tok::arrow, tok::coloncolon)) {
            bool single = name(k + 1).size() == 1 && !swizzle_indices(name(k + 1)).empty();
            component = single && !in_[k].is(tok::coloncolon) ? k + 1 : component;
            k += 2;
        } else if (std::size_t after = skip_angles(k); in_[k].is(tok::less) && is(after, tok::l_paren)) {
            k = after;
        } else {
            break;
        }
    }
    if (component != none) {
        replace(component, access("__c", swizzle_indices(name(component)), in_[component].getLocation()));
    }
}

// `i` names the function of a call.
void Rewriter::wrap_arguments(std::size_t i, StringRef helper) {
    std::size_t open = is(i + 1, tok::less) ? skip_angles(i + 1) : i + 1;
    if (!is(open, tok::l_paren) || partner_[open] == none || partner_[open] == open + 1) {
        return;
    }
    std::size_t begin = open + 1;
    for (std::size_t k = begin; k <= partner_[open]; ++k) {
        if (k == partner_[open] || in_[k].is(tok::comma)) {
            wrap(begin, k, helper);
            begin = k + 1;
        } else if (in_[k].isOneOf(tok::l_paren, tok::l_square, tok::l_brace) && partner_[k] != none) {
            k = partner_[k];
        }
    }
}

// A list in braces is no expression.
void Rewriter::wrap(std::size_t begin, std::size_t end, StringRef helper) {
    if (begin < end && !in_[begin].is(tok::l_brace)) {
        SourceLocation at = in_[begin].getLocation();
        insert_before(begin, {word(helper, at), punctuation(tok::l_paren, at)});
        insert_before(end, {punctuation(tok::r_paren, in_[end].getLocation())});
    }
}

std::vector<Token> Rewriter::run() {
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

} // namespace metalki::compiler::rewriting

namespace metalki::compiler {

std::vector<clang::Token> rewrite_msl_tokens(clang::Preprocessor& preprocessor, std::vector<clang::Token> tokens,
                                             const Repairs& repairs, std::set<unsigned>& says_thread) {
    rewriting::Rewriter rewriter(preprocessor, std::move(tokens));
    rewriter.match_brackets();
    rewriter.apply(repairs);
    std::vector<clang::Token> out = rewriter.run();
    says_thread = rewriter.says_thread();
    return out;
}

} // namespace metalki::compiler

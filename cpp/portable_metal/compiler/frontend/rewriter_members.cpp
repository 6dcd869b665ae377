// Member functions that MSL overloads by the address space of `this`.
#include "frontend/attributes.hpp"
#include "frontend/rewriter.hpp"

#include "clang/Basic/SourceManager.h"
#include "clang/Lex/Lexer.h"
#include "llvm/Support/MemoryBuffer.h"

namespace metalki::compiler::rewriting {

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
    std::size_t head = after_template_head(scope().statement);
    for (std::size_t t = scope().statement; t < head; ++t) {
        key += spelling(in_[t]) + " "; // template parameters are part of the signature
    }
    for (std::size_t t = head; head > scope().statement && t < first; ++t) {
        if (!is_address_space(t)) { // and so is a template's return type: enable_if_t<..., T> tells overloads apart
            key += spelling(in_[t]) + " ";
        }
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
    MemberFunction function;
    function.begin = scope().statement;
    function.end = end;
    function.name = first;
    function.parameters = open;
    function.spaces = std::move(scope().spaces);
    function.is_template = is(scope().statement, tok::kw_template);
    for (std::size_t t = function.begin; t < end; ++t) {
        if (!is_address_space(t)) { // `device T& at() device` beside `thread T& at() thread` is one function to us
            function.text += spelling(in_[t]) + " ";
        }
    }
    for (std::size_t t = head; t < first; ++t) {
        function.result_in_space |= is_address_space(t);
    }
    function.result_in_space &= in_[first - 1].isOneOf(tok::star, tok::amp);
    return_into_space(function);
    scope().members[key].push_back(std::move(function));
    scope().spaces.clear();
}

// The body of a function for objects in one named space: there `this` points into it, and so may the result.
void Rewriter::return_into_space(const MemberFunction& function) {
    if (function.spaces.size() != 1 || function.serves_every_space()) {
        return;
    }
    auto helper = [&](StringRef suffix, SourceLocation at) {
        return std::vector<Token>{word("__in_" + function.spaces.front() + suffix.str(), at), punctuation(tok::l_paren, at)};
    };
    bool reference = in_[function.name - 1].is(tok::amp);
    for (std::size_t t = function.parameters; t < function.end; ++t) {
        SourceLocation at = in_[t].getLocation();
        bool captured = is(t - 1, tok::l_square) || is(t + 1, tok::r_square);
        if (is(t, tok::kw_this) && !captured) {
            std::vector<Token> cast = helper("", at);
            cast.push_back(in_[t]);
            cast.push_back(punctuation(tok::r_paren, at));
            replace(t, std::move(cast));
        } else if (is(t, tok::kw_return) && function.result_in_space && !is(t + 1, tok::semi)) {
            std::size_t stop = t + 1;
            while (stop < function.end && !is(stop, tok::semi)) {
                stop = in_[stop].isOneOf(tok::l_paren, tok::l_square, tok::l_brace) && partner_[stop] != none
                           ? partner_[stop] + 1
                           : stop + 1;
            }
            insert_before(t + 1, helper(reference ? "_reference" : "", at));
            insert_before(stop, {punctuation(tok::r_paren, at)});
        }
    }
}

// Tells semantic_checks in which spaces objects may be that this function is called on.
void Rewriter::say_which_objects(const MemberFunction& function) {
    std::string spaces;
    for (const std::string& space : function.spaces) {
        spaces += space + " ";
    }
    SourceLocation at = in_[function.begin].getLocation();
    std::vector<Token> out;
    append_attribute(out, "annotate",
                     {string(std::string(annotation_prefix) + "object", at), punctuation(tok::comma, at), string(spaces, at)},
                     at);
    insert_before(function.name, out);
}

// Members that differ only in the space of `this` have one signature for Clang, whose `this` is a generic pointer.
void Rewriter::resolve_members() {
    std::set<std::string> dispatched;
    for (auto& [key, functions] : scope().members) {
        bool one_signature_twice =
            functions.size() > 1 &&
            std::any_of(functions.begin(), functions.end(), [](const MemberFunction& f) { return !f.spaces.empty(); });
        if (!one_signature_twice) { // a real redefinition is Clang's to report
            if (functions.size() == 1 && !functions.front().spaces.empty()) {
                say_which_objects(functions.front());
            }
            continue;
        }
        bool all_alike = std::all_of(functions.begin(), functions.end(), [&](const MemberFunction& f) {
            return f.is_template || (f.text == functions.front().text && !f.result_in_space);
        });
        bool is_constructor =
            functions.front().name == functions.front().begin ||
            in_[functions.front().name - 1].isOneOf(tok::kw_constexpr, tok::tilde, tok::kw_explicit, tok::kw_inline);
        if (all_alike || is_constructor) {
            drop_duplicate_members(functions);
        } else {
            dispatch_by_space(functions, dispatched);
        }
    }
}

// Alike: the generic one serves all.
void Rewriter::drop_duplicate_members(std::vector<MemberFunction>& functions) {
    auto kept =
        std::find_if(functions.begin(), functions.end(), [](const MemberFunction& f) { return f.serves_every_space(); });
    if (kept == functions.end()) {
        kept = functions.begin();
    }
    for (auto f = functions.begin(); f != functions.end(); ++f) {
        if (f != kept) {
            remove_range(f->begin, f->end);
        }
    }
}

// Different: each gets a name of its own, and a template of the old name picks by the space of the object.
void Rewriter::dispatch_by_space(std::vector<MemberFunction>& functions, std::set<std::string>& dispatched) {
    std::string name, identifier;
    for (std::size_t t = functions.front().name; t < functions.front().parameters; ++t) {
        name += spelling(in_[t]) + " ";
        StringRef part = this->name(t);
        identifier += part.empty() ? "_" + std::to_string(static_cast<int>(in_[t].getKind())) : part.str();
    }
    std::string choice;
    const MemberFunction* generic = nullptr;
    for (MemberFunction& f : functions) {
        std::string own = "__" + identifier;
        for (const std::string& space : f.spaces) {
            own += "_" + space;
            if (space != "thread") {
                choice += "if constexpr (::metal::__space_of<__S>::" + space + ") return self." + own +
                          "(static_cast<__A&&>(a)...); else ";
            }
        }
        generic = !generic || f.serves_every_space() ? &f : generic;
        SourceLocation at = in_[f.name].getLocation();
        for (std::size_t t = f.name; t < f.parameters; ++t) {
            remove(t);
        }
        replace(f.name, {word(own, at)});
    }
    if (!dispatched.insert(name).second) {
        return; // another signature of the same name: the variants are overloads, the choice is the same
    }
    std::string fallback = "__" + identifier;
    for (const std::string& space : generic->spaces) {
        fallback += "_" + space;
    }
    choice += "return self." + fallback + "(static_cast<__A&&>(a)...);";
    insert_before(functions.front().begin,
                  lex("template <class __S, class... __A> inline __attribute__((always_inline)) constexpr "
                      "decltype(auto) " +
                      name + "(this __S&& self, __A&&... a) { " + choice + " }"));
    // Explicit object parameters are C++23; the rest of the source stays C++17.
    const_cast<clang::LangOptions&>(pp_.getLangOpts()).CPlusPlus23 = true;
}

std::vector<Token> Rewriter::lex(StringRef text) const {
    clang::SourceManager& sources = pp_.getSourceManager();
    clang::FileID file = sources.createFileID(llvm::MemoryBuffer::getMemBufferCopy(text, "<metalki member>"));
    clang::Lexer lexer(file, sources.getBufferOrFake(file), sources, pp_.getLangOpts());
    std::vector<Token> out;
    for (Token token;;) {
        lexer.LexFromRawLexer(token);
        if (token.is(tok::eof)) {
            return out;
        }
        if (token.is(tok::raw_identifier)) {
            pp_.LookUpIdentifierInfo(token);
        }
        out.push_back(token);
    }
}

} // namespace metalki::compiler::rewriting

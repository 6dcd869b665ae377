// The rules: attributes, address spaces, literals, swizzles, keywords.
#include "frontend/attributes.hpp"
#include "frontend/rewriter.hpp"

namespace metalki::compiler::rewriting {
namespace {

bool is_assignment(const Token& t) {
    return t.isOneOf(tok::equal, tok::plusequal, tok::minusequal, tok::starequal, tok::slashequal, tok::percentequal,
                     tok::ampequal, tok::pipeequal, tok::caretequal) ||
           t.isOneOf(tok::lesslessequal, tok::greatergreaterequal, tok::plusplus, tok::minusminus);
}

bool takes_expression(StringRef attribute) {
    return llvm::is_contained({"buffer", "texture", "sampler", "threadgroup", "id", "function_constant", "host_name",
                               "max_total_threads_per_threadgroup", "required_threads_per_threadgroup"},
                              attribute);
}

} // namespace

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
    if (hoists_attribute(i)) {
        insert_before(after_template_head(scope().statement), out);
    } else if (std::size_t behind = after_dimensions(partner_[i] + 1); behind > partner_[i] + 1) {
        insert_before(behind, out); // float clip [[clip_distance]] [2]
    } else {
        replace(i, std::move(out));
    }
    return partner_[i] + 1;
}

// The index behind `[n][m]`.
std::size_t Rewriter::after_dimensions(std::size_t i) const {
    while (is(i, tok::l_square) && !is(i + 1, tok::l_square) && partner_[i] != none) {
        i = partner_[i] + 1;
    }
    return i;
}

// Behind the name or the parameters of a function Clang takes standard attributes only.
bool Rewriter::hoists_attribute(std::size_t i) const {
    bool outside = scopes_.back().kind == ScopeKind::namespace_ || scopes_.back().kind == ScopeKind::class_;
    if (!outside || scopes_.back().parentheses > 0 || i == 0) {
        return false;
    }
    std::size_t after = partner_[i] + 1;
    bool behind_name = !name(i - 1).empty() && is(after, tok::l_paren);
    bool behind_parameters = in_[i - 1].is(tok::r_paren) && (is(after, tok::l_brace) || is(after, tok::semi));
    return behind_name || (behind_parameters && scopes_.back().kind == ScopeKind::namespace_);
}

void Rewriter::rewrite_attribute(std::size_t begin, std::size_t end, std::vector<Token>& out) {
    std::string attribute = name(begin).str();
    SourceLocation at = in_[begin].getLocation();
    if (classify_attribute(attribute) == AttributeClass::unknown) {
        std::string near = nearest_attribute(attribute);
        error(begin, "unknown attribute '" + attribute + "'" + (near.empty() ? "" : "; did you mean '" + near + "'?"));
        return;
    }
    if (classify_attribute(attribute) == AttributeClass::position_input && is(begin + 1, tok::l_paren)) {
        error(begin, "'" + attribute + "' takes no arguments");
    }
    bool on_parameter = scope().parentheses > 0;
    std::vector<Token> arguments{string(std::string(annotation_prefix) + attribute, at)};
    if (is(begin + 1, tok::l_paren) && begin + 2 < end - 1) {
        arguments.push_back(punctuation(tok::comma, at));
        if ((attribute == "function_constant" && on_parameter) || !takes_expression(attribute)) {
            // A condition is no constant expression for Clang: it is evaluated when the kernel is specialised. Other
            // attributes take names that mean nothing here.
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
        scope().spaces.push_back(space.str());
        remove(i);
        bool is_const = in_[i - 1].is(tok::kw_const) || in_[i + 1].is(tok::kw_const);
        if (space == "constant" && !is_const) {
            replace(i, {word("const", in_[i].getLocation())}); // nobody writes to constant memory
        }
        return i + 1;
    }
    SourceLocation at = in_[i].getLocation();
    std::vector<Token> out;
    if (space == "thread") {
        says_thread_.insert(in_[i + 1].getLocation().getRawEncoding());
    }
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
    bool is_pointer_variable = i > 0 && in_[i - 1].is(tok::star) && is(i + 1, tok::identifier) &&
                               in_[i + 2].isOneOf(tok::semi, tok::equal, tok::l_square, tok::comma);
    bool is_type = in_[scope().statement].is(tok::kw_typedef);
    bool is_variable = !is_type && (variable_name_after(i) != none || is_pointer_variable);
    if (space == "threadgroup" && !is_parameter && scope().kind != ScopeKind::class_ && is_variable) {
        append_attribute(out, "section", {string(threadgroup_section, at)}, at);
    }
    replace(i, std::move(out));
    if (is_parameter) {
        array_parameter_to_pointer(i);
    } else if (is_pointer_variable && scope().kind == ScopeKind::function && space != "thread" && space != "device") {
        insert_before(scope().statement, {word("static", at)});
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
    bool attribute_first = in_[statement].is(tok::kw_alignas) || in_[statement].is(tok::l_square);
    insert_before(attribute_first ? i : statement, {word("static", in_[statement].getLocation())});
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
    if (last == 'q' || last == 'Q' || last == 'i' || last == 'w' || last == 'd' || last == 'D') {
        error(i, std::string("invalid suffix '") + last + "' on floating constant");
        replace(i, {literal(tok::numeric_constant, "0.0f", at)});
        return i + 1;
    }
    if (last == 'l' || last == 'L') {
        error(i, "'long double' literals are not supported in Metal");
    }
    return none;
}

// `i` is a member name; the index behind the components and subscripts that follow it.
std::size_t Rewriter::end_of_accesses(std::size_t i) const {
    std::size_t k = i + 1;
    while (k < in_.size()) {
        if (is(k, tok::l_square) && partner_[k] != none) {
            k = partner_[k] + 1;
        } else if (is(k, tok::period) && !swizzle_indices(name(k + 1)).empty()) {
            k += 2;
        } else {
            break;
        }
    }
    return k;
}

// Whether the vector whose swizzle is named at `i` changes.
bool Rewriter::is_assigned(std::size_t i) const {
    if (is_assignment(in_[end_of_accesses(i)])) {
        return true;
    }
    for (std::size_t k = i - 1; k-- > 0;) { // ++v.xy: the operator stands before the whole postfix expression
        if (in_[k].isOneOf(tok::r_paren, tok::r_square) && partner_[k] != none) {
            k = partner_[k];
        } else if (in_[k].isOneOf(tok::plusplus, tok::minusminus)) {
            return true;
        } else if (name(k).empty() && !in_[k].isOneOf(tok::period, tok::arrow, tok::coloncolon)) {
            return false;
        } else if (!name(k).empty() && k > 0 && !in_[k - 1].isOneOf(tok::period, tok::arrow, tok::coloncolon)) {
            return in_[k - 1].isOneOf(tok::plusplus, tok::minusminus);
        }
    }
    return false;
}

// template function<components>()
std::vector<Token> Rewriter::access(StringRef function, const std::vector<int>& components, SourceLocation at) const {
    std::vector<Token> out{word("template", at), word(function, at), punctuation(tok::less, at)};
    for (std::size_t k = 0; k < components.size(); ++k) {
        if (k > 0) {
            out.push_back(punctuation(tok::comma, at));
        }
        out.push_back(literal(tok::numeric_constant, std::to_string(components[k]), at));
    }
    for (auto kind : {tok::greater, tok::l_paren, tok::r_paren}) {
        out.push_back(punctuation(kind, at));
    }
    return out;
}

std::size_t Rewriter::rewrite_swizzle(std::size_t i) {
    StringRef text = name(i);
    if (i == 0 || text.size() < 2 || text.size() > 4 || !in_[i - 1].isOneOf(tok::period, tok::arrow) ||
        is(i + 1, tok::l_paren)) {
        return none;
    }
    std::vector<int> indices = swizzle_indices(text);
    unsigned place = in_[i].getLocation().getRawEncoding();
    bool is_member = declared_swizzles_.count(text.str()) > 0 && known_swizzles_.count(place) == 0;
    if (indices.empty() || is_member || known_members_.count(place)) {
        return none;
    }
    bool assigned = is_assigned(i);
    replace(i, access(assigned ? "__l" : "__g", indices, in_[i].getLocation()));
    if (assigned && is(i + 1, tok::period) && name(i + 2).size() == 1 && !swizzle_indices(name(i + 2)).empty()) {
        replace(i + 2, access("__l", swizzle_indices(name(i + 2)), in_[i + 2].getLocation())); // v.wzyx.x = 1
        return i + 3;
    }
    return i + 1;
}

std::size_t Rewriter::rewrite_keyword(std::size_t i) {
    const Token& t = in_[i];
    SourceLocation at = t.getLocation();
    if (t.is(tok::kw_double)) {
        error(i, "'double' is not supported in Metal");
        if (i > 0 && in_[i - 1].is(tok::kw_long)) {
            remove(i - 1);
        }
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
        {tok::kw_typeid, "'typeid' is"},
        {tok::kw___int128, "'__int128' is"},
        {tok::kw_try, "exceptions ('try') are"},
        {tok::kw_throw, "exceptions ('throw') are"},
    };
    for (const auto& [kind, what] : forbidden) {
        bool deleted_function = kind == tok::kw_delete && i > 0 && in_[i - 1].is(tok::equal);
        bool operator_name = i > 0 && in_[i - 1].is(tok::kw_operator);
        if (t.is(kind) && !deleted_function && !operator_name) {
            error(i, std::string(what) + " not supported in Metal");
            if (kind == tok::kw_dynamic_cast || kind == tok::kw___int128) { // so that no second error follows
                replace(i, {word(kind == tok::kw___int128 ? "long" : "static_cast", at)});
            } else if (kind == tok::kw_typeid) {
                replace(i, {word("sizeof", at)});
            }
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
    bool stage_memory = text == "object_data" || text == "ray_data" || text == "threadgroup_imageblock";
    if (stage_memory && !in_[i + 1].isOneOf(tok::semi, tok::equal, tok::comma, tok::r_paren, tok::period, tok::l_square)) {
        says_thread_.insert(in_[i + 1].getLocation().getRawEncoding()); // memory of functions that only parse
        remove(i);
        return i + 1;
    }
    if (text == "coherent" && is(i + 1, tok::l_paren) && partner_[i + 1] == i + 3) {
        remove_range(i, i + 4);
        return i + 4;
    }
    if (text == "coherent" && is_address_space(i + 1)) {
        remove(i);
        return i + 1;
    }
    if (text == "is_function_constant_defined" && is(i + 1, tok::l_paren) && partner_[i + 1] != none) {
        // The address, not the value: an unset constant may be asked about.
        replace(i, {word("__metalki_is_defined", at)});
        insert_before(i + 2, {punctuation(tok::amp, at)});
        return i + 1;
    }
    return none;
}

} // namespace metalki::compiler::rewriting

// Making tokens and noting edits.
#include "frontend/rewriter.hpp"

namespace metalki::compiler::rewriting {

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

} // namespace metalki::compiler::rewriting

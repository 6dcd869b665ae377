// Diagnostics with the user's own line and column.
#include "frontend/diagnostics.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "clang/Basic/SourceManager.h"
#include "llvm/ADT/SmallString.h"

#include "frontend/attributes.hpp"
#include "frontend/clang_invocation.hpp"
#include "stdlib/embedded_files.hpp"

namespace metalki::compiler {
namespace {

void replace_all(std::string& text, std::string_view from, std::string_view to) {
    for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
        text.replace(at, from.size(), to);
    }
}

bool is_ours(const std::string& file) {
    return file.starts_with("/metalki/include/") || file.starts_with("<metalki");
}

const char* name_of(Severity severity) {
    switch (severity) {
    case Severity::note:
        return "note";
    case Severity::warning:
        return "warning";
    case Severity::error:
        return "error";
    }
    return "error";
}

std::string line_text(const clang::SourceManager& sources, clang::FileID file, unsigned line) {
    bool invalid = false;
    llvm::StringRef buffer = sources.getBufferData(file, &invalid);
    if (invalid) {
        return {};
    }
    for (unsigned k = 1; k < line && !buffer.empty(); ++k) {
        auto end = buffer.find('\n');
        buffer = end == llvm::StringRef::npos ? llvm::StringRef() : buffer.drop_front(end + 1);
    }
    return buffer.take_until([](char c) { return c == '\n' || c == '\r'; }).str();
}

// '__storage_t<float, 4>' (aka 'metal::__storage<float, 4>::type') is the native vector inside of float4.
std::string without_storage_types(std::string message) {
    for (std::string_view known : {"__storage_t<", "__vector"}) {
        for (std::size_t at = message.find(known); at != std::string::npos; at = message.find(known, at + 1)) {
            std::size_t quote = message.find('\'', at);
            std::size_t aka = message.find(" (aka '", at);
            if (quote != std::string::npos && aka == quote + 1) {
                message.erase(aka, message.find(')', aka) + 1 - aka);
            }
        }
    }
    replace_all(message, "__storage_t<", "vec<");
    return message;
}

// '__same_t<int>' (aka 'int') and 'vec<decltype(abs(uint())), 4>' (aka 'uint4') are names of ours for what is written behind
// them.
std::string without_own_aliases(std::string message) {
    constexpr std::string_view aka = "' (aka '";
    for (std::size_t middle = message.find(aka); middle != std::string::npos; middle = message.find(aka, middle + 1)) {
        const std::size_t at = middle == 0 ? std::string::npos : message.rfind('\'', middle - 1);
        const std::size_t end = message.find("')", middle + aka.size());
        if (at == std::string::npos || end == std::string::npos) {
            break;
        }
        const std::string_view name = std::string_view(message).substr(at + 1, middle - at - 1);
        if (name.starts_with("__") || name.find("decltype(") != std::string_view::npos) {
            message.erase(end + 1, 1);
            message.erase(at, middle + aka.size() - 1 - at);
            middle = at;
        }
    }
    return message;
}

// __swizzle<float4, float, 0, 1> is what v.xy is before an assignment.
std::string without_swizzles(std::string message) {
    constexpr std::string_view known = "__swizzle<";
    for (std::size_t at = message.find(known); at != std::string::npos; at = message.find(known, at + 1)) {
        const std::size_t end = message.find('>', message.find(", ", at));
        const std::size_t scalar = message.find(", ", at);
        if (scalar == std::string::npos || end == std::string::npos) {
            break;
        }
        const std::string inside = message.substr(scalar + 2, end - scalar - 2); // "float, 0, 1"
        const auto components = std::count(inside.begin(), inside.end(), ',');
        message.replace(at, end + 1 - at, inside.substr(0, inside.find(',')) + std::to_string(components));
    }
    return message;
}

// "'vector' file not found" leaves open what there is.
void explain_missing_header(std::string& message) {
    constexpr std::string_view missing = "' file not found";
    if (!message.starts_with("'") || !message.ends_with(missing)) {
        return;
    }
    const std::string name = message.substr(1, message.size() - missing.size() - 1);
    static const std::set<std::string_view> host_headers = {
        "algorithm",   "array",   "atomic", "cassert",    "cfloat",   "climits", "cmath",    "complex", "cstddef",  "cstdio",
        "cstdlib",     "cstring", "limits", "math.h",     "numeric",  "stdio.h", "stdlib.h", "string",  "string.h", "tuple",
        "type_traits", "utility", "vector", "functional", "iostream", "memory",  "map",      "set",     "float.h"};
    if (host_headers.count(name) > 0) {
        message += ": Metal has a library of its own, #include <metal_stdlib>";
        return;
    }
    std::vector<std::string_view> ours;
    for (const stdlib::EmbeddedFile& file : stdlib::embedded_files()) {
        if (!file.name.starts_with("metalki")) {
            ours.push_back(file.name);
        }
    }
    if (std::string near = nearest(name, ours); !near.empty()) {
        message += "; did you mean '" + near + "'?";
    }
}

// 'float4' (aka 'float4') once, after both names have become the same.
void drop_repeated_names(std::string& message) {
    for (std::size_t at = message.find("' (aka '"); at != std::string::npos; at = message.find("' (aka '", at + 1)) {
        std::size_t open = message.rfind('\'', at - 1);
        std::size_t close = message.find("')", at + 8);
        if (open != std::string::npos && close != std::string::npos &&
            message.substr(open + 1, at - open - 1) == message.substr(at + 8, close - at - 8)) {
            message.erase(at + 1, close + 2 - at - 1);
        }
    }
}

// A note about a function of the standard library that says something without its internals.
bool explains_candidate(const std::string& message) {
    bool says_why = message.find("not viable: ") != std::string::npos || message.find("ignored: ") != std::string::npos;
    bool about_copies = message.find("(the implicit ") != std::string::npos;
    return message.starts_with("candidate") && says_why && !message.ends_with("ignored: ") && !about_copies &&
           message.find("__") == std::string::npos && message.find("requirement '") == std::string::npos &&
           message.find("'constant void *'") == std::string::npos &&
           message.find("could not match 'vec<") == std::string::npos &&
           message.find("could not match 'packed_vec") == std::string::npos && message.find(", N>") == std::string::npos &&
           message.find("substitution failure") == std::string::npos && message.find("metal::") == std::string::npos;
}

} // namespace

std::string in_msl_terms(std::string message) {
    static const std::pair<const char*, const char*> terms[] = {
        {"no matching function for call to '__metalki_is_defined'", "'is_function_constant_defined' takes a function constant"},
        {"'annotate' attribute requires parameter 1 to be a constant expression",
         "the argument of an attribute must be a constant expression"},
        {"'annotate' attribute", "this attribute"},
        {"automatic variable qualified with an address space", "a variable of a function cannot be in this address space: it "
                                                               "is the thread's own, or declared 'threadgroup' or 'constant'"},
        {"use of undeclared '__g'", "only vectors have components"},
        {"use of undeclared '__l'", "only vectors have components"},
        {"no matching member function for call to '__apply'", "an argument of 'sampler' is no option of samplers"},
        {"metal::__swizzle<", "__swizzle<"},
        {"__attribute__((opencl_global_device)) ", "device "},
        {"const __attribute__((opencl_global_host)) ", "constant "},
        {"__attribute__((opencl_global_host)) const ", "constant "},
        {"__attribute__((opencl_global_host)) ", "constant "},
        {"__attribute__((opencl_local)) ", "threadgroup "},
        {"__global_device ", "device "},
        {"const __global_host ", "constant "},
        {"__global_host const ", "constant "},
        {"__global_host ", "constant "},
        {"__local ", "threadgroup "},
        {"__global_device", "device"},
        {"__global_host", "constant"},
        {"__local", "threadgroup"},
        {"metal::_atomic", "atomic"},
        {"_Float16", "half"},
        {"__bf16", "bfloat"},
        {"sizeof...(I) aka ", ""},
        {"2 aka 2", "2"},
        {"3 aka 3", "3"},
        {"4 aka 4", "4"},
        {"candidate function template not viable", "candidate function not viable"},
        {"because std::initializer_list was not found; include <initializer_list>", "in braces: Metal has no type for it"},
        {"unsigned long long", "ulong"},
        {"generic address space", "address space 'thread'"},
        {"variable length array declaration cannot have 'static' storage duration",
         "the length of a threadgroup array must be a constant"},
        {"'#pragma clang fp'", "'#pragma METAL fp'"},
        {"'#pragma float_control'", "'#pragma METAL fp'"},
        {"unsigned char", "uchar"},
        {"unsigned short", "ushort"},
        {"unsigned int", "uint"},
        {"unsigned long", "ulong"},
    };
    for (const auto& [from, to] : terms) {
        replace_all(message, from, to);
    }
    message = without_own_aliases(without_storage_types(std::move(message)));
    explain_missing_header(message);
    // A static_assert of our own headers: the sentence is what matters.
    if (message.starts_with("static assertion failed due to requirement '")) {
        if (std::size_t sentence = message.rfind("': "); sentence != std::string::npos) {
            message = message.substr(sentence + 3);
        }
    }
    // vec<float, 4> and vec<metal::..., n> are what users write as float4.
    for (const char* scalar :
         {"bool", "char", "uchar", "short", "ushort", "int", "uint", "long", "ulong", "half", "bfloat", "float"}) {
        for (char width : {'2', '3', '4'}) {
            std::string plain = "vec<" + std::string(scalar) + ", " + width + ">";
            std::string name = std::string(scalar) + width;
            for (const char* scope : {"metal::packed_", "packed_"}) {
                replace_all(message, scope + plain, "packed_" + name);
            }
            replace_all(message, "metal::" + plain, name);
            replace_all(message, plain, name);
            replace_all(message, "'" + name + "' (aka '" + name + "')", "'" + name + "'");
        }
    }
    for (const char* scalar : {"half", "bfloat", "float"}) {
        for (char columns : {'2', '3', '4'}) {
            for (char rows : {'2', '3', '4'}) {
                std::string name = std::string(scalar) + columns + "x" + rows;
                std::string plain = "matrix<" + std::string(scalar) + ", " + columns + ", " + rows + ">";
                replace_all(message, "metal::" + plain, name);
                replace_all(message, plain, name);
            }
        }
    }
    message = without_swizzles(std::move(message));
    drop_repeated_names(message);
    if (message.starts_with("call to '") && message.ends_with("' is ambiguous")) {
        message += ": convert the arguments to one type";
    }
    if (constexpr std::string_view unknown = "unknown type name '"; message.starts_with(unknown) && message.ends_with("'")) {
        std::string near =
            nearest_scalar_type(std::string_view(message).substr(unknown.size(), message.size() - unknown.size() - 1));
        message += near.empty() ? "" : "; did you mean '" + near + "'?";
    }
    if (message.ends_with("is not contextually convertible to 'bool'") && message.find("'bool") < message.size() - 8 &&
        message.starts_with("value of type 'bool")) {
        message += ": use all() or any()";
    }
    return message;
}

void DiagnosticCollector::HandleDiagnostic(clang::DiagnosticsEngine::Level level, const clang::Diagnostic& info) {
    DiagnosticConsumer::HandleDiagnostic(level, info);
    if (level == clang::DiagnosticsEngine::Ignored || level == clang::DiagnosticsEngine::Remark) {
        return;
    }
    Diagnostic d;
    d.severity = level == clang::DiagnosticsEngine::Note      ? Severity::note
                 : level == clang::DiagnosticsEngine::Warning ? Severity::warning
                                                              : Severity::error;
    llvm::SmallString<256> message;
    info.FormatDiagnostic(message);
    d.message = in_msl_terms(message.str().str());
    d.file = source_name;
    if (info.hasSourceManager() && info.getLocation().isValid()) {
        const clang::SourceManager& sources = info.getSourceManager();
        clang::SourceLocation spot = sources.getFileLoc(info.getLocation());
        clang::PresumedLoc place = sources.getPresumedLoc(spot);
        if (place.isValid()) {
            d.file = place.getFilename();
            if (constexpr std::string_view given = "/metalki/user/"; d.file.starts_with(given)) {
                d.file.erase(0, given.size()); // a header given as text
            }
            d.line = place.getLine();
            d.column = place.getColumn();
            auto [file, offset] = sources.getDecomposedLoc(spot);
            d.source_line = line_text(sources, file, sources.getLineNumber(file, offset));
        }
    }
    if (d.severity == Severity::note && d.message.find("/metalki/") != std::string::npos) {
        return; // about the insides of a type of ours
    }
    if (is_ours(d.file)) {
        if (d.severity == Severity::error) {
            is_repeated_ = false;
            misplaced_ = diagnostics_.size();
            diagnostics_.push_back(std::move(d));
        } else if (d.severity == Severity::note && !is_repeated_ && explains_candidate(d.message)) {
            keep_candidate(std::move(d));
        }
        return;
    }
    if (d.severity == Severity::note && misplaced_ < diagnostics_.size() && d.line > 0) {
        // An error inside the standard headers belongs to the line of the user that led there.
        Diagnostic& error = diagnostics_[misplaced_];
        d.message = error.message;
        d.severity = Severity::error;
        error = std::move(d);
        misplaced_ = none;
        return;
    }
    if (d.severity != Severity::note) {
        const std::string place = d.file + ":" + std::to_string(d.line) + ":" + std::to_string(d.column) + " ";
        is_repeated_ = !said_.insert(place + d.message).second;
    }
    if (!is_repeated_) {
        diagnostics_.push_back(std::move(d));
    }
}

// Why a function of the standard library does not fit, told at the user's line: each reason once, and not too many.
void DiagnosticCollector::keep_candidate(Diagnostic note) {
    constexpr int most = 3;
    int notes = 0;
    for (auto d = diagnostics_.rbegin(); d != diagnostics_.rend(); ++d) {
        if (d->severity != Severity::note) {
            note.file = d->file;
            note.line = d->line;
            note.column = d->column;
            note.source_line = d->source_line;
            if (notes < most && d->severity == Severity::error) {
                diagnostics_.push_back(std::move(note));
            }
            return;
        }
        if (d->message == note.message) {
            return;
        }
        ++notes;
    }
}

// Errors in our headers whose place in the source never came: the first of several says enough.
std::vector<Diagnostic> DiagnosticCollector::take() {
    auto placed = [](const Diagnostic& d) { return d.severity == Severity::error && !is_ours(d.file); };
    bool any_placed = std::any_of(diagnostics_.begin(), diagnostics_.end(), placed);
    std::erase_if(diagnostics_, [&](const Diagnostic& d) { return any_placed && is_ours(d.file); });
    for (Diagnostic& d : diagnostics_) {
        if (is_ours(d.file)) {
            d.file = source_name;
            d.line = d.column = 0;
            d.source_line.clear();
        }
    }
    said_.clear();
    return std::move(diagnostics_);
}

std::string DiagnosticCollector::text() const {
    std::string out;
    bool any_placed = std::any_of(diagnostics_.begin(), diagnostics_.end(),
                                  [](const Diagnostic& d) { return d.severity == Severity::error && !is_ours(d.file); });
    for (const Diagnostic& d : diagnostics_) {
        if (is_ours(d.file)) {
            out += any_placed ? "" : "error: " + d.message + "\n";
            continue;
        }
        if (d.line > 0) {
            out += d.file + ":" + std::to_string(d.line) + ":" + std::to_string(d.column) + ": ";
        }
        out += std::string(name_of(d.severity)) + ": " + d.message + "\n";
        if (!d.source_line.empty()) {
            std::string margin;
            for (unsigned k = 1; k < d.column && k <= d.source_line.size(); ++k) {
                margin += d.source_line[k - 1] == '\t' ? '\t' : ' ';
            }
            out += d.source_line + "\n" + margin + "^\n";
        }
    }
    return out;
}

} // namespace metalki::compiler

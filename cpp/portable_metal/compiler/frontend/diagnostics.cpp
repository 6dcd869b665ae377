// Diagnostics with the user's own line and column.
#include "frontend/diagnostics.hpp"

#include <utility>

#include "clang/Basic/SourceManager.h"
#include "llvm/ADT/SmallString.h"

#include "frontend/clang_invocation.hpp"

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

} // namespace

std::string in_msl_terms(std::string message) {
    static const std::pair<const char*, const char*> terms[] = {
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
        {"unsigned char", "uchar"},
        {"unsigned short", "ushort"},
        {"unsigned int", "uint"},
        {"unsigned long", "ulong"},
    };
    for (const auto& [from, to] : terms) {
        replace_all(message, from, to);
    }
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
            d.line = place.getLine();
            d.column = place.getColumn();
            auto [file, offset] = sources.getDecomposedLoc(spot);
            d.source_line = line_text(sources, file, sources.getLineNumber(file, offset));
        }
    }
    if (is_ours(d.file)) {
        if (d.severity == Severity::error) {
            misplaced_ = diagnostics_.size();
            diagnostics_.push_back(std::move(d));
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
    diagnostics_.push_back(std::move(d));
}

std::string DiagnosticCollector::text() const {
    std::string out;
    for (const Diagnostic& d : diagnostics_) {
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

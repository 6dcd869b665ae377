// Compiler messages out of Metal's errors.
#include <charconv>

#include "metal_backend/objects.hpp"

namespace metalki::metal {

namespace {

std::string line_of(const std::string& source, unsigned number) {
    std::size_t start = 0;
    for (unsigned line = 1; line < number; ++line) {
        start = source.find('\n', start);
        if (start == std::string::npos)
            return {};
        ++start;
    }
    return source.substr(start, source.find('\n', start) - start);
}

Severity severity_of(std::string_view word) {
    return word == "warning" ? Severity::warning : word == "note" ? Severity::note : Severity::error;
}

// "program_source:3:5: error: text"
bool parse_line(std::string_view line, Diagnostic& out) {
    for (std::string_view word : {"error", "warning", "note"}) {
        const std::string mark = ": " + std::string(word) + ": ";
        const std::size_t at = line.find(mark);
        if (at == std::string_view::npos)
            continue;
        std::string_view place = line.substr(0, at);
        const std::size_t second = place.rfind(':');
        const std::size_t first = second == std::string_view::npos || second == 0 ? second : place.rfind(':', second - 1);
        if (first == std::string_view::npos || second == first)
            return false;
        auto number = [&](std::size_t from, std::size_t to, unsigned& value) {
            return std::from_chars(place.data() + from, place.data() + to, value).ec == std::errc();
        };
        if (!number(first + 1, second, out.line) || !number(second + 1, place.size(), out.column))
            return false;
        out.file = place.substr(0, first);
        out.severity = severity_of(word);
        out.message = line.substr(at + mark.size());
        return true;
    }
    return false;
}

std::vector<Diagnostic> parse_text(std::string_view text) {
    std::vector<Diagnostic> result;
    while (!text.empty()) {
        const std::size_t end = text.find('\n');
        Diagnostic diagnostic;
        if (parse_line(text.substr(0, end), diagnostic))
            result.push_back(std::move(diagnostic));
        text = end == std::string_view::npos ? std::string_view{} : text.substr(end + 1);
    }
    return result;
}

// What the portable compiler adds to its errors; Apple's has no such entry.
std::vector<Diagnostic> read_entries(NS::Error* error) {
    std::vector<Diagnostic> result;
    NS::Dictionary* info = error->userInfo();
    auto* list = info ? info->object<NS::Array>(make_string("metalki.diagnostics").get()) : nullptr;
    for (NS::UInteger i = 0; list && i < list->count(); ++i) {
        auto* entry = list->object<NS::Dictionary>(i);
        auto text = [entry](const char* key) { return to_string(entry->object<NS::String>(make_string(key).get())); };
        auto number = [entry](const char* key) {
            auto* value = entry->object<NS::Number>(make_string(key).get());
            return value ? value->unsignedIntValue() : 0u;
        };
        result.push_back({text("file"), number("line"), number("column"), severity_of(text("severity")), text("message"),
                          text("sourceLine")});
    }
    return result;
}

} // namespace

std::vector<Diagnostic> read_diagnostics(NS::Error* error, const std::string& source) {
    std::vector<Diagnostic> result = read_entries(error);
    if (result.empty())
        result = parse_text(to_string(error->localizedDescription()));
    for (Diagnostic& diagnostic : result)
        if (diagnostic.source_line.empty() && diagnostic.file == "program_source")
            diagnostic.source_line = line_of(source, diagnostic.line);
    return result;
}

} // namespace metalki::metal

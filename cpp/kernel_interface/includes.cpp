// The user's own `#include`s, served from memory and folders. Apple's Metal takes one text without include paths, so the
// texts are put in place here; #line marks keep the positions in messages right.
#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "kernel_interface/backend.hpp"

namespace metalki::detail {

namespace {

constexpr std::size_t most_bytes = std::size_t{64} << 20; // headers that include each other can double without end

struct Header {
    std::string name; // as messages show it
    std::string text;
    std::filesystem::path folder; // of files on disk
};

struct Include {
    std::string name;
    bool quoted = false; // "name" rather than <name>
};

std::string_view trimmed(std::string_view text) {
    const std::size_t start = text.find_first_not_of(" \t\r");
    return start == std::string_view::npos ? std::string_view{}
                                           : text.substr(start, text.find_last_not_of(" \t\r") - start + 1);
}

// What follows `word` in a preprocessor line of that kind.
std::optional<std::string_view> directive(std::string_view line, std::string_view word) {
    line = trimmed(line);
    if (!line.starts_with('#'))
        return std::nullopt;
    line = trimmed(line.substr(1));
    if (!line.starts_with(word))
        return std::nullopt;
    return trimmed(line.substr(word.size()));
}

std::optional<Include> included(std::string_view line) {
    const auto rest = directive(line, "include");
    if (!rest || rest->empty() || (rest->front() != '"' && rest->front() != '<'))
        return std::nullopt;
    const bool quoted = rest->front() == '"';
    const std::size_t end = rest->find(quoted ? '"' : '>', 1);
    if (end == std::string_view::npos)
        return std::nullopt;
    return Include{std::string(rest->substr(1, end - 1)), quoted};
}

// Whether the text after this line is inside a block comment.
bool ends_in_comment(std::string_view line, bool in_comment) {
    bool in_text = false;
    for (std::size_t i = 0; i < line.size(); ++i) {
        const std::string_view pair = line.substr(i, 2);
        if (in_comment) {
            in_comment = pair != "*/";
            i += !in_comment;
        } else if (in_text) {
            i += line[i] == '\\';
            in_text = i >= line.size() || line[i] != '"';
        } else if (pair == "//") {
            return false;
        } else if (pair == "/*") {
            in_comment = true;
            ++i;
        } else {
            in_text = line[i] == '"';
        }
    }
    return in_comment;
}

class Inliner {
public:
    explicit Inliner(const CompileOptions& options) : options_(options) {}

    void expand(const Header& file, std::string& out) {
        stack_.push_back(file.name);
        std::string_view text = file.text;
        bool in_comment = false;
        for (unsigned number = 1; !text.empty(); ++number) {
            const std::size_t end = text.find('\n');
            const std::string_view line = text.substr(0, end);
            text = end == std::string_view::npos ? std::string_view{} : text.substr(end + 1);
            if (in_comment || !(take_once(line) || take_include(line, file, number, out)))
                out.append(line);
            out += '\n';
            in_comment = ends_in_comment(line, in_comment);
            if (out.size() > most_bytes)
                throw ArgumentError("compile: with its includes the source has more than " + std::to_string(most_bytes) +
                                    " bytes; do the headers include each other without guards?");
        }
        stack_.pop_back();
    }

private:
    // The text of a header that says `#pragma once` is guarded where it is put.
    bool take_once(std::string_view line) const {
        const auto rest = stack_.size() > 1 ? directive(line, "pragma") : std::nullopt;
        return rest && *rest == "once";
    }

    bool take_include(std::string_view line, const Header& from, unsigned number, std::string& out) {
        const std::optional<Include> wanted = included(line);
        const std::optional<Header> header = wanted ? find(*wanted, from) : std::nullopt;
        if (!header)
            return false; // one of the standard headers, or the compiler says that there is none
        // A header that is being included already has its guard set: nothing of it would come again.
        if (std::find(stack_.begin(), stack_.end(), header->name) != stack_.end())
            return true;
        const bool once = header->text.find("once") != std::string::npos && says_once(header->text);
        if (once)
            out += "#ifndef " + guard_of(header->name) + "\n#define " + guard_of(header->name) + "\n";
        out += "#line 1 \"" + header->name + "\"\n";
        expand(*header, out);
        if (once)
            out += "#endif\n";
        out += "#line " + std::to_string(number + 1) + " \"" + from.name + "\"";
        return true;
    }

    static bool says_once(std::string_view text) {
        while (!text.empty()) {
            const std::size_t end = text.find('\n');
            if (const auto rest = directive(text.substr(0, end), "pragma"); rest && *rest == "once")
                return true;
            text = end == std::string_view::npos ? std::string_view{} : text.substr(end + 1);
        }
        return false;
    }

    std::string guard_of(const std::string& name) {
        const auto found = std::find(guarded_.begin(), guarded_.end(), name);
        const auto number = found - guarded_.begin();
        if (found == guarded_.end())
            guarded_.push_back(name);
        return "METALKI_INCLUDED_" + std::to_string(number);
    }

    static std::optional<Header> read(const std::filesystem::path& path) {
        std::error_code error;
        if (!std::filesystem::is_regular_file(path, error))
            return std::nullopt;
        std::ifstream file(path, std::ios::binary);
        return Header{path.lexically_normal().string(), std::string(std::istreambuf_iterator<char>(file), {}),
                      path.parent_path()};
    }

    std::optional<Header> find(const Include& wanted, const Header& from) const {
        if (wanted.quoted && !from.folder.empty())
            if (auto header = read(from.folder / wanted.name))
                return header;
        for (const auto& [name, text] : options_.headers)
            if (name == wanted.name)
                return Header{name, text, {}};
        for (const std::string& folder : options_.include_dirs)
            if (auto header = read(std::filesystem::path(folder) / wanted.name))
                return header;
        return std::nullopt;
    }

    const CompileOptions& options_;
    std::vector<std::string> stack_;
    std::vector<std::string> guarded_;
};

// What the inliner cannot follow: names that macros stand for, questions whether a file is there.
bool looks_further(std::string_view text) {
    if (text.find("__has_include") != std::string_view::npos || text.find("__has_embed") != std::string_view::npos)
        return true;
    while (!text.empty()) {
        const std::size_t end = text.find('\n');
        const std::string_view line = text.substr(0, end);
        for (std::string_view word : {"include_next", "import", "embed", "include"}) {
            const auto rest = directive(line, word);
            if (rest && (word != "include" || !included(line)))
                return true;
        }
        text = end == std::string_view::npos ? std::string_view{} : text.substr(end + 1);
    }
    return false;
}

} // namespace

std::string include_state(std::string_view inlined, const CompileOptions& options) {
    if (options.include_dirs.empty() || !looks_further(inlined))
        return {};
    constexpr std::size_t most_files = 10000;
    std::string state;
    std::size_t files = 0;
    for (const std::string& folder : options.include_dirs) {
        std::error_code error;
        constexpr auto options_of_walk = std::filesystem::directory_options::skip_permission_denied;
        for (auto it = std::filesystem::recursive_directory_iterator(folder, options_of_walk, error);
             !error && it != std::filesystem::recursive_directory_iterator(); it.increment(error)) {
            std::error_code ignored;
            if (!it->is_regular_file(ignored))
                continue;
            if (++files > most_files)
                break;
            state += it->path().string() + '\0' + std::to_string(it->file_size(ignored)) + ' ' +
                     std::to_string(static_cast<std::int64_t>(it->last_write_time(ignored).time_since_epoch().count())) + '\n';
        }
    }
    // Too much to look at: nothing that is kept is trusted.
    static std::atomic<std::uint64_t> unique{0};
    return files > most_files ? std::to_string(++unique) : state;
}

std::string inline_includes(std::string_view source, const CompileOptions& options) {
    if (options.headers.empty() && options.include_dirs.empty())
        return std::string(source);
    std::string out;
    Inliner(options).expand({"program_source", std::string(source), {}}, out);
    return out;
}

} // namespace metalki::detail

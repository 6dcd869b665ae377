// The user's own `#include`s, served from memory and folders. The Metal API takes one text without include paths, so the
// texts are put in place here; #line marks keep the positions in messages right.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include "kernel_interface/backend.hpp"

namespace metalki::detail {

namespace {

struct Header {
    std::string name; // as messages show it
    std::string text;
};

class Inliner {
public:
    explicit Inliner(const CompileOptions& options) : options_(options) {}

    void expand(std::string_view text, const std::string& name, std::string& out) {
        stack_.push_back(name);
        unsigned number = 0;
        while (!text.empty()) {
            std::size_t end = text.find('\n');
            std::string_view line = text.substr(0, end);
            text = end == std::string_view::npos ? std::string_view{} : text.substr(end + 1);
            ++number;
            if (!try_include(line, name, number, out))
                out.append(line);
            out += '\n';
        }
        stack_.pop_back();
    }

private:
    bool try_include(std::string_view line, const std::string& from, unsigned number, std::string& out) {
        std::string wanted = included_name(line);
        std::optional<Header> header = wanted.empty() ? std::nullopt : find(wanted);
        if (!header)
            return false;
        if (once_.contains(header->name) || std::find(stack_.begin(), stack_.end(), header->name) != stack_.end())
            return true;
        if (header->text.find("#pragma once") != std::string::npos)
            once_.insert(header->name);
        out += "#line 1 \"" + header->name + "\"\n";
        expand(header->text, header->name, out);
        out += "#line " + std::to_string(number + 1) + " \"" + from + "\"";
        return true;
    }

    static std::string included_name(std::string_view line) {
        auto skip = [&line] {
            std::size_t start = line.find_first_not_of(" \t");
            line.remove_prefix(start == std::string_view::npos ? line.size() : start);
        };
        skip();
        if (!line.starts_with('#'))
            return {};
        line.remove_prefix(1);
        skip();
        if (!line.starts_with("include"))
            return {};
        line.remove_prefix(7);
        skip();
        if (line.empty() || (line[0] != '"' && line[0] != '<'))
            return {};
        std::size_t end = line.find(line[0] == '"' ? '"' : '>', 1);
        return end == std::string_view::npos ? std::string() : std::string(line.substr(1, end - 1));
    }

    std::optional<Header> find(const std::string& wanted) const {
        for (const auto& [name, text] : options_.headers)
            if (name == wanted)
                return Header{name, text};
        for (const std::string& folder : options_.include_dirs) {
            std::filesystem::path path = std::filesystem::path(folder) / wanted;
            std::error_code error;
            if (!std::filesystem::is_regular_file(path, error))
                continue;
            std::ifstream file(path, std::ios::binary);
            return Header{path.string(), std::string(std::istreambuf_iterator<char>(file), {})};
        }
        return std::nullopt;
    }

    const CompileOptions& options_;
    std::vector<std::string> stack_;
    std::set<std::string> once_;
};

} // namespace

std::string inline_includes(std::string_view source, const CompileOptions& options) {
    if (options.headers.empty() && options.include_dirs.empty())
        return std::string(source);
    std::string out;
    Inliner(options).expand(source, "program_source", out);
    return out;
}

} // namespace metalki::detail

// See the header. The headers themselves are the same for all versions.
#include "frontend/language_versions.hpp"

#include <map>
#include <set>
#include <string_view>

#include "llvm/ADT/StringExtras.h"

namespace metalki::compiler {
namespace {

// Without the digits of a vector or matrix: "bfloat" stands for bfloat4 and bfloat2x3, too.
const std::map<std::string_view, unsigned>& first_versions() {
    static const std::map<std::string_view, unsigned> versions = {
        {"bfloat", metal_3_1},
        {"packed_bfloat", metal_3_1},
        {"simdgroup_bfloat", metal_3_1},
        {"os_log", metal_3_2},
        {"os_log_default", metal_3_2},
        {"os_log_type", metal_3_2},
        {"atomic_float", metal_3_0},
        {"atomic_ulong", metal_2_4},
        {"simdgroup_matrix", metal_2_3},
        {"simdgroup_float", metal_2_3},
        {"simdgroup_half", metal_2_3},
        {"simdgroup_load", metal_2_3},
        {"simdgroup_store", metal_2_3},
        {"simdgroup_multiply", metal_2_3},
        {"simdgroup_multiply_accumulate", metal_2_3},
        {"visible_function_table", metal_2_3},
    };
    return versions;
}

std::string_view without_size(llvm::StringRef name) {
    std::size_t end = name.find_last_not_of("0123456789");
    if (end != llvm::StringRef::npos && name[end] == 'x' && end > 0 && llvm::isDigit(name[end - 1])) {
        end = name.take_front(end).find_last_not_of("0123456789");
    }
    return std::string_view(name).substr(0, end == llvm::StringRef::npos ? name.size() : end + 1);
}

} // namespace

std::string version_text(unsigned language_version) {
    return std::to_string(language_version >> 16) + "." + std::to_string(language_version & 0xffff);
}

void check_language_version(clang::Preprocessor& preprocessor, const std::vector<clang::Token>& tokens,
                            unsigned language_version) {
    if (language_version >= metal_3_2) {
        return;
    }
    std::set<const clang::IdentifierInfo*> seen;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
        const clang::Token& token = tokens[i];
        const clang::IdentifierInfo* identifier = token.isAnnotation() ? nullptr : token.getIdentifierInfo();
        bool member = i > 0 && tokens[i - 1].isOneOf(clang::tok::period, clang::tok::arrow);
        if (!identifier || member || !seen.insert(identifier).second) {
            continue;
        }
        auto found = first_versions().find(without_size(identifier->getName()));
        if (found != first_versions().end() && found->second > language_version) {
            auto id = preprocessor.getDiagnostics().getCustomDiagID(clang::DiagnosticsEngine::Error,
                                                                    "'%0' needs Metal %1; the language version is %2");
            preprocessor.Diag(token, id) << identifier->getName() << version_text(found->second)
                                         << version_text(language_version);
        }
    }
}

} // namespace metalki::compiler

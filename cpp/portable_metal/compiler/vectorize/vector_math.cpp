// libmvec, the vector half of glibc's libm: found at run time, documented to be within 4 ulp.
#include "vectorize/vector_math.hpp"

#include <array>

#ifdef __linux__
#include <dlfcn.h>
#endif

#include "llvm/MC/MCSubtargetInfo.h"

namespace metalki::compiler::vectorize {
namespace {

struct Function {
    const char* name;
    unsigned arguments;
    llvm::Intrinsic::ID intrinsic;
};

constexpr llvm::Intrinsic::ID none = llvm::Intrinsic::not_intrinsic;
constexpr std::array functions{
    Function{"sinf", 1, llvm::Intrinsic::sin},
    Function{"cosf", 1, llvm::Intrinsic::cos},
    Function{"tanf", 1, llvm::Intrinsic::tan},
    Function{"expf", 1, llvm::Intrinsic::exp},
    Function{"exp2f", 1, llvm::Intrinsic::exp2},
    Function{"exp10f", 1, llvm::Intrinsic::exp10},
    Function{"logf", 1, llvm::Intrinsic::log},
    Function{"log2f", 1, llvm::Intrinsic::log2},
    Function{"log10f", 1, llvm::Intrinsic::log10},
    Function{"asinf", 1, llvm::Intrinsic::asin},
    Function{"acosf", 1, llvm::Intrinsic::acos},
    Function{"atanf", 1, llvm::Intrinsic::atan},
    Function{"atan2f", 2, none},
    Function{"sinhf", 1, llvm::Intrinsic::sinh},
    Function{"coshf", 1, llvm::Intrinsic::cosh},
    Function{"tanhf", 1, llvm::Intrinsic::tanh},
    Function{"asinhf", 1, none},
    Function{"acoshf", 1, none},
    Function{"atanhf", 1, none},
    Function{"expm1f", 1, none},
    Function{"log1pf", 1, none},
    Function{"cbrtf", 1, none},
    Function{"erff", 1, none},
    Function{"erfcf", 1, none},
    Function{"hypotf", 2, none},
};

// The x86-64 vector ABI: letter of the instruction set, lanes, one "v" an argument.
std::string symbol_of(const Function& function, char isa, unsigned width) {
    return std::string("_ZGV") + isa + "N" + std::to_string(width) + std::string(function.arguments, 'v') + "_" + function.name;
}

std::vector<VectorSymbol> find_symbols() {
    std::vector<VectorSymbol> out;
#if defined(__linux__) && defined(__x86_64__)
    void* library = dlopen("libmvec.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        return out;
    }
    for (const Function& function : functions) {
        for (auto [isa, width] : {std::pair{'e', 16u}, std::pair{'d', 8u}, std::pair{'b', 4u}}) {
            std::string symbol = symbol_of(function, isa, width);
            if (const void* address = dlsym(library, symbol.c_str())) {
                out.push_back({symbol, address});
            }
        }
    }
#endif
    return out;
}

} // namespace

const std::vector<VectorSymbol>& vector_symbols() {
    static const std::vector<VectorSymbol> symbols = find_symbols();
    return symbols;
}

VectorMath::VectorMath(const llvm::TargetMachine& machine) {
    const llvm::MCSubtargetInfo& target = *machine.getMCSubtargetInfo();
    if (!machine.getTargetTriple().isX86()) {
        return;
    }
    char isa = target.checkFeatures("+avx512f") ? 'e' : target.checkFeatures("+avx2") ? 'd' : 'b';
    unsigned width = isa == 'e' ? 16 : isa == 'd' ? 8 : 4;
    for (const Function& function : functions) {
        std::string symbol = symbol_of(function, isa, width);
        for (const VectorSymbol& known : vector_symbols()) {
            if (known.name == symbol) {
                entries_.push_back({function.name, {symbol, width, function.arguments}});
            }
        }
    }
}

const VectorFunction* VectorMath::find(std::string_view name) const {
    for (const Entry& entry : entries_) {
        if (entry.name == name) {
            return &entry.function;
        }
    }
    return nullptr;
}

const VectorFunction* VectorMath::find(llvm::Intrinsic::ID intrinsic) const {
    for (const Function& function : functions) {
        if (function.intrinsic == intrinsic && intrinsic != none) {
            return find(function.name);
        }
    }
    return nullptr;
}

} // namespace metalki::compiler::vectorize

// See the header.
#include "vector_kernel.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdlib>
#include <mutex>

#include "llvm/Bitcode/BitcodeReader.h"
#include "llvm/Bitcode/BitcodeWriter.h"
#include "llvm/IR/Verifier.h"
#include "llvm/Support/raw_ostream.h"

#include "cache/disk_cache.hpp"
#include "codegen/host_target.hpp"
#include "codegen/lane_accesses.hpp"
#include "codegen/mask_values.hpp"
#include "codegen/optimize.hpp"
#include "codegen/recursion.hpp"
#include "codegen/runtime_names.hpp"
#include "deep_stack.hpp"
#include "process_end.hpp"
#include "vectorize/constant_arguments.hpp"
#include "vectorize/group_work.hpp"
#include "vectorize/linear_positions.hpp"
#include "vectorize/prepare.hpp"
#include "vectorize/vectorize.hpp"
#include "vectorize/widener.hpp"

namespace metalki::compiler {
namespace {

using vectorize::Geometry;
using vectorize::LaneLayout;

constexpr const char* vector_entry = "__metalki_vector";

// The layout that fits a threadgroup best.
Geometry geometry_of(const Uint3& size) {
    std::uint64_t threads = std::uint64_t{size.x} * size.y * size.z;
    Geometry out;
    out.full = threads % simd_width == 0;
    bool one_row = size.y == 1 && size.z == 1;
    if (size.x % simd_width == 0 || one_row) {
        out.layout = LaneLayout::rows;
        return out;
    }
    bool power_of_two = (size.x & (size.x - 1)) == 0;
    bool whole_rows = size.z == 1 || (std::uint64_t{size.x} * size.y) % simd_width == 0;
    out.layout = power_of_two && whole_rows ? LaneLayout::columns : LaneLayout::table;
    out.width = out.layout == LaneLayout::columns ? size.x : simd_width;
    return out;
}

std::string name_of(const Geometry& geometry) {
    const char* layouts[] = {"flat", "rows", "columns", "table"};
    return std::string(layouts[unsigned(geometry.layout)]) + std::to_string(geometry.width) + (geometry.full ? "" : " partial");
}

// METALKI_DEBUG_VECTORS=1 says on the standard error which kernels run thread by thread, and why.
void note_refusal(const FunctionInfo& function, const Geometry& geometry, const std::string& reason) {
    const char* wanted = std::getenv("METALKI_DEBUG_VECTORS");
    if (wanted != nullptr && *wanted == '1') {
        llvm::errs() << "metalki vectors: " + function.name + " (" + name_of(geometry) + "): " + reason + "\n";
    }
}

std::string write_bitcode(const llvm::Module& module) {
    std::string out;
    llvm::raw_string_ostream stream(out);
    llvm::WriteBitcodeToFile(module, stream);
    return out;
}

// Leaves only the vector entry callable.
void keep_only(llvm::Module& module, const llvm::Function& entry) {
    for (llvm::Function& function : module) {
        if (!function.isDeclaration() && &function != &entry) {
            function.setLinkage(llvm::GlobalValue::InternalLinkage);
        }
    }
}

// Beyond these the code generator takes more than a few seconds: parts of it are quadratic in the length of a block, and of the
// whole.
constexpr std::size_t longest_scalar = 8000;
constexpr std::size_t longest_block = 13000;
constexpr std::size_t longest_entry = 16000;

void refuse_long_code(const llvm::Function& function, std::size_t limit, std::size_t block_limit) {
    std::size_t total = function.getInstructionCount();
    std::size_t longest = 0;
    for (const llvm::BasicBlock& block : function) {
        longest = std::max(longest, block.size());
    }
    if (total > limit || longest > block_limit) {
        throw vectorize::Unsupported("too much code for vectors: " + std::to_string(total) + " instructions, " +
                                     std::to_string(longest) + " in one block");
    }
}

llvm::Function& make_vector_entry(llvm::Function& scalar, const Geometry& geometry, llvm::TargetMachine& machine) {
    llvm::Module& module = *scalar.getParent();
    refuse_long_code(scalar, longest_scalar, longest_scalar);
    llvm::Function& entry = vectorize::vectorize(scalar, geometry, vector_entry, machine);
    keep_only(module, entry);
    entry.addFnAttr("stackrealign"); // else vectors that find no register lie across cache lines
    if (std::getenv("METALKI_VERIFY") != nullptr) {
        std::string problems;
        llvm::raw_string_ostream stream(problems);
        if (llvm::verifyModule(module, &stream)) {
            scalar.print(stream, nullptr);
            throw std::logic_error("the vectoriser made a damaged module: " + problems);
        }
    }
    refuse_long_code(entry, 2 * longest_entry, 2 * longest_entry);
    optimize_vectors(module, machine);
    lower_lane_accesses(entry, machine);
    keep_masks_as_numbers(entry, machine);
    refuse_long_code(entry, longest_entry, longest_block);
    return entry;
}

void emit_into(CompiledKernel& kernel, llvm::Module& module, llvm::TargetMachine& machine) {
    const std::size_t recursion = prepare_recursion(module);
    ObjectCode object = emit(module, machine, llvm::CodeGenFileType::ObjectFile);
    kernel.entry = vector_entry;
    kernel.stack_size = total_frame_size(object) + recursion;
    kernel.object.assign(object.begin(), object.end());
}

class Variants final : public VectorVariants {
public:
    Variants(CompiledKernel kernel, std::string key, std::span<const RuntimeSymbol> runtime, MakeScalar make_scalar)
        : kernel_(std::move(kernel)), key_(std::move(key)), runtime_(runtime.begin(), runtime.end()),
          make_scalar_(std::move(make_scalar)) {
        if (kernel_.form == CompiledKernel::Form::rows) {
            rows_ = load_kernel(kernel_, runtime_);
        } else if (!kernel_.object.empty()) {
            place(Geometry()) = load_kernel(kernel_, runtime_);
            known_[index_of(Geometry())] = place(Geometry()).get();
        }
        kernel_.object.clear();
    }

    const KernelCode* rows() const override { return rows_.get(); }

    const KernelCode* threadgroups(Uint3 size) const override {
        if (rows_) {
            return nullptr;
        }
        Geometry geometry = geometry_of(size);
        if (const KernelCode* known = known_[index_of(geometry)].load(std::memory_order_acquire)) {
            return known;
        }
        std::lock_guard lock(mutex_);
        if (refused_[index_of(geometry)]) {
            return nullptr;
        }
        std::shared_ptr<const KernelCode>& code = place(geometry);
        if (!code) {
            code = make(geometry);
            refused_[index_of(geometry)] = !code;
            known_[index_of(geometry)].store(code.get(), std::memory_order_release);
        }
        return code.get();
    }

    const KernelCode& scalar() const override {
        std::lock_guard lock(mutex_);
        if (!scalar_) {
            scalar_ = make_scalar_();
        }
        return *scalar_;
    }

private:
    static constexpr unsigned geometries = 64;
    static unsigned index_of(const Geometry& geometry) {
        return unsigned(geometry.layout) * 16 + unsigned(std::countr_zero(geometry.width)) * 2 + geometry.full;
    }
    std::shared_ptr<const KernelCode>& place(const Geometry& geometry) const { return codes_[index_of(geometry)]; }

    std::shared_ptr<const KernelCode> make(const Geometry& geometry) const {
        const Compiling compiling;
        const DiskCache& cache = DiskCache::instance();
        std::string key = content_hash(key_ + " " + name_of(geometry));
        if (auto record = cache.load(key)) {
            if (auto known = read_kernel(*record)) {
                return load_variant(*known, geometry);
            }
        }
        CompiledKernel made = on_deep_stack([&] { return compile(geometry); });
        cache.store(key, write_kernel(made));
        return load_variant(made, geometry);
    }

    std::shared_ptr<const KernelCode> load_variant(const CompiledKernel& kernel, const Geometry& geometry) const {
        if (kernel.object.empty()) {
            return nullptr;
        }
        auto code = load_kernel(kernel, runtime_);
        code->wants_positions = geometry.layout == LaneLayout::table;
        return code;
    }

    CompiledKernel compile(const Geometry& geometry) const {
        CompiledKernel out = kernel_;
        out.vector_source.clear();
        llvm::LLVMContext context;
        auto module = llvm::parseBitcodeFile(llvm::MemoryBufferRef(kernel_.vector_source, "kernel"), context);
        if (!module) {
            throw std::runtime_error("damaged module: " + llvm::toString(module.takeError()));
        }
        auto machine = make_target_machine();
        try {
            make_vector_entry(*(*module)->getFunction(kernel_.scalar_entry), geometry, *machine);
        } catch (const std::exception& problem) {
            out.object.clear();
            out.why_scalar = problem.what();
            note_refusal(out.function, geometry, out.why_scalar);
            return out;
        }
        emit_into(out, **module, *machine);
        return out;
    }

    CompiledKernel kernel_;
    std::string key_;
    std::vector<RuntimeSymbol> runtime_;
    MakeScalar make_scalar_;
    std::shared_ptr<const KernelCode> rows_;
    mutable std::mutex mutex_;
    mutable std::array<std::shared_ptr<const KernelCode>, geometries> codes_;
    mutable std::array<std::atomic<const KernelCode*>, geometries> known_{};
    mutable std::array<bool, geometries> refused_{};
    mutable std::shared_ptr<const KernelCode> scalar_;
};

// Slots of arguments that point to threadgroup memory.
std::vector<unsigned> threadgroup_slots(const FunctionInfo& function) {
    std::vector<unsigned> out;
    for (unsigned slot = 0; slot < function.arguments.size(); ++slot) {
        if (function.arguments[slot].kind == ArgumentKind::threadgroup) {
            out.push_back(slot);
        }
    }
    return out;
}

// Turns the scalar kernel of the module into vector code and fills in `out`; says why not when that is impossible.
bool make_vectors(KernelModule& scalar, const FunctionInfo& function, llvm::TargetMachine& machine, CompiledKernel& out) {
    llvm::Function& kernel = *scalar.module->getFunction(out.scalar_entry);
    Geometry geometry;
    try {
        vectorize::prepare(kernel, machine);
        vectorize::read_constant_arguments_first(kernel, function.arguments);
        const std::vector<unsigned> slots = threadgroup_slots(function);
        if (vectorize::demands_of(kernel).threadgroups || !slots.empty()) {
            out.form = CompiledKernel::Form::threadgroups;
            out.group_work = vectorize::group_work_of(kernel, slots);
            out.vector_source = write_bitcode(*scalar.module);
        } else {
            out.form = CompiledKernel::Form::rows;
            out.axes_in_row = vectorize::number_threads_along_x(kernel);
            geometry.layout = LaneLayout::flat;
        }
        make_vector_entry(kernel, geometry, machine);
        return true;
    } catch (const vectorize::Unsupported& problem) {
        out.why_scalar = problem.what();
    } catch (const std::logic_error& problem) {
        out.why_scalar = std::string("the vectoriser failed: ") + problem.what();
    }
    note_refusal(function, geometry, out.why_scalar);
    return false;
}

} // namespace

std::optional<CompiledKernel> compile_vectors(KernelModule& scalar, const std::string& entry, const FunctionInfo& function,
                                              llvm::TargetMachine& machine, std::string& why_not) {
    CompiledKernel out;
    out.function = function;
    out.scalar_entry = entry;
    if (!make_vectors(scalar, function, machine, out)) {
        why_not = out.why_scalar;
        return std::nullopt;
    }
    emit_into(out, *scalar.module, machine);
    return out;
}

std::optional<std::string> disassemble_vectors(KernelModule& scalar, const std::string& entry, const FunctionInfo& function,
                                               llvm::TargetMachine& machine, std::string_view form, std::string& why_not) {
    CompiledKernel made;
    made.scalar_entry = entry;
    if (!make_vectors(scalar, function, machine, made)) {
        why_not = made.why_scalar;
        return std::nullopt;
    }
    std::string how = made.form == CompiledKernel::Form::rows
                          ? "runs SIMD-groups as vectors, by rows of the grid"
                          : "runs SIMD-groups as vectors; for threadgroups whose width is a multiple of 32";
    return comment_line(form, how) + listing(*scalar.module, machine, form);
}

std::string comment_line(std::string_view form, const std::string& text) {
    return (form == "llvm" ? "; " : "# ") + text + "\n";
}

bool prints_messages(const CompiledKernel& kernel) {
    return kernel.object.find(runtime::rt_log) != std::string::npos; // in its table of symbols
}

std::shared_ptr<const VectorVariants> make_variants(CompiledKernel kernel, std::string key,
                                                    std::span<const RuntimeSymbol> runtime, MakeScalar make_scalar) {
    return std::make_shared<Variants>(std::move(kernel), std::move(key), runtime, std::move(make_scalar));
}

std::shared_ptr<KernelCode> load_kernel(const CompiledKernel& kernel, std::span<const RuntimeSymbol> runtime) {
    LoadedObject loaded = load(kernel.object, kernel.entry, runtime);
    auto code = std::make_shared<KernelCode>();
    code->function = kernel.function;
    code->synchronizes = kernel.form == CompiledKernel::Form::scalar && kernel.synchronizes;
    code->static_threadgroup_memory = kernel.threadgroup_memory;
    code->stack_size = kernel.stack_size;
    code->prints = prints_messages(kernel);
    code->axes_in_row = kernel.axes_in_row;
    void* entry = const_cast<void*>(loaded.entry);
    if (kernel.form == CompiledKernel::Form::rows) {
        code->run_rows = reinterpret_cast<RowEntry>(entry);
    } else if (code->synchronizes) {
        code->run_thread = reinterpret_cast<ThreadEntry>(entry);
    } else {
        code->run_threadgroup = reinterpret_cast<ThreadgroupEntry>(entry);
    }
    code->code_begin = loaded.code_begin;
    code->code_end = loaded.code_end;
    code->keep_alive = std::move(loaded.keep_alive);
    return code;
}

} // namespace metalki::compiler

// A library: parsed once, specialised, optimised and loaded kernel by kernel on demand.
#include "compiler/compiler.hpp"
#include "compiler/gpu_code.hpp"

#include <algorithm>

#include "clang/Basic/Version.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/Verifier.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/Transforms/Utils/Cloning.h"

#include "cache/disk_cache.hpp"
#include "cache/records.hpp"
#include "codegen/defined_behaviour.hpp"
#include "codegen/function_constants.hpp"
#include "codegen/function_pointers.hpp"
#include "codegen/host_target.hpp"
#include "codegen/initialisers.hpp"
#include "codegen/kernel_module.hpp"
#include "codegen/loader.hpp"
#include "codegen/meeting_points.hpp"
#include "codegen/optimize.hpp"
#include "codegen/precise_functions.hpp"
#include "codegen/recursion.hpp"
#include "codegen/synchronization_sites.hpp"
#include "codegen/thread_context.hpp"
#include "codegen/threadgroup_memory.hpp"
#include "deep_stack.hpp"
#include "frontend/entry_points.hpp"
#include "frontend/parse.hpp"
#include "kernel_source.hpp"
#include "process_end.hpp"
#include "ptx/make_code.hpp"
#include "ptx/simd_matrices.hpp"
#include "ptx/target.hpp"
#include "vector_kernel.hpp"

namespace metalki::compiler {
namespace {

// What becomes of a kernel's code after it was brought into one function.
enum class Next : std::uint8_t { machine_code, vectors, gpu };

// A kernel on its way from bitcode to machine code.
struct Specialization {
    KernelModule kernel;
    llvm::Function* entry = nullptr;
    bool synchronizes = false;
    std::size_t threadgroup_memory = 0;
    std::vector<unsigned> inactive_slots;
};

// METALKI_EXECUTOR=scalar runs every kernel thread by thread: the reference that vector code is held against.
bool wants_vectors() {
    const char* choice = std::getenv("METALKI_EXECUTOR");
    return !choice || std::string_view(choice) != "scalar";
}

class ParsedLibrary final : public Library, public std::enable_shared_from_this<ParsedLibrary> {
public:
    ParsedLibrary(std::string_view source, const Options& options);

    std::span<const FunctionInfo> functions() const override { return parsed_.functions; }
    std::span<const FunctionConstant> constants() const override { return parsed_.constants; }
    std::span<const Diagnostic> warnings() const override { return parsed_.warnings; }

    std::vector<FunctionConstant> used_constants(std::string_view function) const override;
    std::shared_ptr<const KernelCode> make_kernel(std::string_view function, std::span<const ConstantValue> constants,
                                                  std::span<const RuntimeSymbol> runtime) const override;
    std::string disassemble(std::string_view function, std::span<const ConstantValue> constants,
                            std::string_view form) const override;
    std::shared_ptr<const GpuCode> gpu_code(std::string_view function, std::span<const ConstantValue> constants,
                                            const GpuRequest& request) const;

private:
    std::string disassemble_kernel(std::size_t kernel, std::span<const ConstantValue> constants, std::string_view form) const;
    std::shared_ptr<TranslationUnit> parse_again() const;
    std::vector<std::string> roots_of(std::size_t kernel, bool by_thread, bool by_group) const;
    std::vector<ConstantUse> find_constant_uses(std::size_t kernel) const;
    void refuse_unset_constants(std::size_t kernel, const llvm::Module& module) const;
    CompiledKernel compile_kernel(std::size_t kernel, std::span<const ConstantValue> constants, bool vectors) const;
    GpuCode compile_for_gpu(std::size_t kernel, std::span<const ConstantValue> constants, const GpuRequest& request) const;
    CompiledKernel compiled(std::size_t kernel, std::span<const ConstantValue> constants, bool vectors,
                            const std::string& key) const;
    std::size_t index_of(std::string_view function) const;
    Specialization specialize(std::size_t kernel, std::span<const ConstantValue> constants, llvm::TargetMachine& machine) const;
    Specialization optimized(KernelModule code, std::size_t kernel, bool by_thread, std::span<const ConstantValue> constants,
                             llvm::TargetMachine& machine, Next next = Next::machine_code) const;
    std::vector<unsigned> read_inactive_slots(std::size_t kernel, llvm::Module& module) const;

    std::string source_;
    Options options_;
    std::string key_;         // of the source as given
    std::string content_key_; // of the source and the files that it includes
    ParsedSource parsed_;
    std::unique_ptr<KernelSource> code_;
};

ParsedLibrary::ParsedLibrary(std::string_view source, const Options& options)
    : source_(source), options_(options), key_(source_key(source, options)) {
    const DiskCache& cache = DiskCache::instance();
    std::optional<ParsedSource> cached;
    if (auto record = cache.load(key_)) {
        cached = read_source(*record);
    }
    parsed_ = cached ? std::move(*cached) : parse_source(source, options);
    content_key_ = content_key(key_, parsed_.dependencies);
    code_ = std::make_unique<KernelSource>(content_key_, [this] { return parse_again(); });
    if (parsed_.unit) {
        code_->adopt(std::move(parsed_.unit), parsed_.functions.size());
        cache.store(key_, write_source(parsed_));
    }
}

// The entry points of one kernel, and the conditions under which its optional arguments exist.
std::vector<std::string> ParsedLibrary::roots_of(std::size_t kernel, bool by_thread, bool by_group) const {
    std::vector<std::string> roots;
    if (by_thread) {
        roots.push_back(thread_entry_name(kernel));
    }
    if (by_group) {
        roots.push_back(threadgroup_entry_name(kernel));
    }
    for (unsigned slot : parsed_.conditional_slots[kernel]) {
        roots.push_back(active_name(kernel, slot));
    }
    return roots;
}

// The code must be that of the table of kernels we have.
std::shared_ptr<TranslationUnit> ParsedLibrary::parse_again() const {
    ParsedSource again = parse_source(source_, options_);
    if (content_key(key_, again.dependencies) != content_key_) {
        throw CompileError("the files that the source includes have changed since it was compiled; compile it again", {});
    }
    return std::move(again.unit);
}

std::size_t ParsedLibrary::index_of(std::string_view function) const {
    auto found = std::find_if(parsed_.functions.begin(), parsed_.functions.end(),
                              [&](const FunctionInfo& f) { return f.name == function; });
    if (found != parsed_.functions.end()) {
        return static_cast<std::size_t>(found - parsed_.functions.begin());
    }
    std::string known;
    for (std::size_t i = 0; i < parsed_.functions.size() && i < 20; ++i) {
        known += (known.empty() ? "" : ", ") + parsed_.functions[i].name;
    }
    if (parsed_.functions.size() > 20) {
        known += ", and " + std::to_string(parsed_.functions.size() - 20) + " more";
    }
    throw SpecializationError("no kernel named '" + std::string(function) + "' was found; " +
                              (known.empty() ? std::string("the source has no kernel") : "there are " + known));
}

std::vector<ConstantUse> ParsedLibrary::find_constant_uses(std::size_t kernel) const {
    KernelModule code = code_->read(roots_of(kernel, true, true));
    auto is_used = [&](std::size_t i) {
        const auto* variable = code.module->getGlobalVariable(parsed_.constant_symbols[i], true);
        return variable && !variable->use_empty();
    };
    std::vector<ConstantUse> uses;
    for (std::size_t i = 0; i < parsed_.constants.size(); ++i) {
        if (is_used(i)) {
            uses.push_back({static_cast<std::uint32_t>(i), true});
        }
    }
    if (uses.empty()) {
        return uses;
    }
    // With nothing set, what remains after folding the questions is what must be given.
    apply_function_constants(*code.module, parsed_.constants, parsed_.constant_symbols, {});
    fold_branches(*code.module);
    for (ConstantUse& use : uses) {
        use.required = is_used(use.constant);
    }
    return uses;
}

std::vector<FunctionConstant> ParsedLibrary::used_constants(std::string_view function) const {
    std::size_t kernel = index_of(function);
    if (parsed_.constants.empty()) {
        return {};
    }
    const DiskCache& cache = DiskCache::instance();
    std::string key = constants_key(content_key_, function);
    std::optional<std::vector<ConstantUse>> uses;
    if (auto record = cache.load(key)) {
        uses = read_constant_uses(*record, parsed_.constants.size());
    }
    if (!uses) {
        uses = on_deep_stack([&] { return find_constant_uses(kernel); });
        cache.store(key, write_constant_uses(*uses));
    }
    std::vector<FunctionConstant> out;
    for (const ConstantUse& use : *uses) {
        out.push_back(parsed_.constants[use.constant]);
        out.back().required = use.required;
    }
    return out;
}

// The generated condition functions have folded to constants.
std::vector<unsigned> ParsedLibrary::read_inactive_slots(std::size_t kernel, llvm::Module& module) const {
    std::vector<unsigned> out;
    for (unsigned slot : parsed_.conditional_slots[kernel]) {
        llvm::Function* condition = module.getFunction(active_name(kernel, slot));
        auto* answer = condition && !condition->isDeclaration()
                           ? llvm::dyn_cast<llvm::ReturnInst>(condition->getEntryBlock().getTerminator())
                           : nullptr;
        auto* value = answer ? llvm::dyn_cast<llvm::ConstantInt>(answer->getReturnValue()) : nullptr;
        if (value && value->isZero()) {
            out.push_back(slot);
        }
        if (condition && value) {
            condition->eraseFromParent();
        }
    }
    return out;
}

void ParsedLibrary::refuse_unset_constants(std::size_t kernel, const llvm::Module& module) const {
    std::string names;
    for (const std::string& name : unset_constants(module, parsed_.constants, parsed_.constant_symbols)) {
        names += (names.empty() ? "'" : ", '") + name + "'";
    }
    if (!names.empty()) {
        throw SpecializationError("kernel '" + parsed_.functions[kernel].name + "' needs a value for function constant " +
                                  names);
    }
}

Specialization ParsedLibrary::optimized(KernelModule code, std::size_t kernel, bool by_thread,
                                        std::span<const ConstantValue> constants, llvm::TargetMachine& machine,
                                        Next next) const {
    Specialization out;
    out.kernel = std::move(code);
    llvm::Module& module = *out.kernel.module;
    keep_only(module, roots_of(kernel, by_thread, !by_thread));
    apply_function_constants(module, parsed_.constants, parsed_.constant_symbols, constants);
    evaluate_initialisers(module);
    if (!unset_constants(module, parsed_.constants, parsed_.constant_symbols).empty()) {
        auto trial = llvm::CloneModule(module); // what optimisation may leave out does not need a value
        inline_and_fold(*trial);
        refuse_unset_constants(kernel, *trial);
    }
    if (next == Next::gpu) {
        ptx::declare_matrix_products(module);
    }
    define_behaviour(module, next == Next::gpu ? Alignment::of_elements_if_wide : Alignment::of_elements);
    protect_precise_functions(module);
    resolve_function_pointers(module);
    call_initialisers(module, *module.getFunction(roots_of(kernel, by_thread, !by_thread).front()));
    out.threadgroup_memory = place_threadgroup_variables(module);
    module.setTargetTriple(machine.getTargetTriple().str());
    const std::string entry = by_thread ? thread_entry_name(kernel) : threadgroup_entry_name(kernel);
    switch (next) {
    case Next::machine_code:
        if (by_thread) {
            inline_calls(module, machine);
            number_synchronization_sites(module, *module.getFunction(entry));
        }
        optimize(module, machine);
        break;
    case Next::vectors:
        mark_meeting_points(module);
        simplify(module, machine);
        forget_meeting_points(module);
        break;
    case Next::gpu:
        simplify(module, machine);
        break;
    }
    out.inactive_slots = read_inactive_slots(kernel, module);
    refuse_unset_constants(kernel, module);
    out.entry = module.getFunction(entry);
    out.synchronizes = calls_synchronization(module);
    return out;
}

Specialization ParsedLibrary::specialize(std::size_t kernel, std::span<const ConstantValue> constants,
                                         llvm::TargetMachine& machine) const {
    const auto of_threads = [](Specialization by_thread) {
        resolve_context(*by_thread.kernel.module, *by_thread.entry);
        refuse_synchronization_elsewhere(*by_thread.kernel.module, *by_thread.entry);
        by_thread.synchronizes = true;
        return by_thread;
    };
    KernelModule code = code_->read(roots_of(kernel, true, true));
    std::optional<Specialization> by_thread;
    if (calls_synchronization(*code.module)) {
        by_thread = optimized(std::move(code), kernel, true, constants, machine);
        if (by_thread->synchronizes) {
            return of_threads(std::move(*by_thread));
        }
        code = code_->read(roots_of(kernel, true, true)); // what synchronised has folded away
    }
    Specialization by_group = optimized(std::move(code), kernel, false, constants, machine);
    if (by_thread && by_group.synchronizes) {
        return of_threads(std::move(*by_thread)); // here it has not
    }
    resolve_context(*by_group.kernel.module, *by_group.entry);
    return by_group;
}

CompiledKernel ParsedLibrary::compile_kernel(std::size_t kernel, std::span<const ConstantValue> constants, bool vectors) const {
    auto machine = make_target_machine();
    auto complete = [&](CompiledKernel& out, const Specialization& special) {
        if (!special.kernel.problems->empty()) {
            throw CompileError("kernel '" + parsed_.functions[kernel].name + "': " + *special.kernel.problems, {});
        }
        for (unsigned slot : special.inactive_slots) {
            out.function.arguments[slot].active = false;
        }
        out.threadgroup_memory = special.threadgroup_memory;
    };
    std::string why_scalar;
    if (vectors) {
        Specialization special =
            optimized(code_->read(roots_of(kernel, true, true)), kernel, true, constants, *machine, Next::vectors);
        auto out =
            compile_vectors(special.kernel, special.entry->getName().str(), parsed_.functions[kernel], *machine, why_scalar);
        if (out) {
            complete(*out, special);
            return std::move(*out);
        }
    }
    Specialization special = specialize(kernel, constants, *machine);
    const std::size_t recursion = prepare_recursion(*special.kernel.module);
    ObjectCode object = emit(*special.kernel.module, *machine, llvm::CodeGenFileType::ObjectFile);
    CompiledKernel out;
    out.function = parsed_.functions[kernel];
    complete(out, special);
    out.entry = special.entry->getName().str();
    out.synchronizes = special.synchronizes;
    out.stack_size = total_frame_size(object) + recursion;
    out.object.assign(object.begin(), object.end());
    out.why_scalar = why_scalar;
    return out;
}

CompiledKernel ParsedLibrary::compiled(std::size_t kernel, std::span<const ConstantValue> constants, bool vectors,
                                       const std::string& key) const {
    const DiskCache& cache = DiskCache::instance();
    if (auto record = cache.load(key)) {
        if (auto known = read_kernel(*record)) {
            return std::move(*known);
        }
    }
    CompiledKernel made = on_deep_stack([&] { return compile_kernel(kernel, constants, vectors); });
    cache.store(key, write_kernel(made));
    return made;
}

std::shared_ptr<const KernelCode> ParsedLibrary::make_kernel(std::string_view function,
                                                             std::span<const ConstantValue> constants,
                                                             std::span<const RuntimeSymbol> runtime) const {
    const Compiling compiling;
    std::size_t kernel = index_of(function);
    std::string key = kernel_key(content_key_, function, constants);
    std::string scalar_key = content_hash(key + " scalar");
    if (!wants_vectors()) {
        return load_kernel(compiled(kernel, constants, false, scalar_key), runtime);
    }
    CompiledKernel made = compiled(kernel, constants, true, key);
    if (made.form == CompiledKernel::Form::scalar) {
        return load_kernel(made, runtime);
    }
    auto code = std::make_shared<KernelCode>();
    code->function = made.function;
    code->static_threadgroup_memory = made.threadgroup_memory;
    code->stack_size = made.stack_size;
    code->group_work = made.group_work;
    code->prints = prints_messages(made);
    auto make_scalar = [self = shared_from_this(), kernel, scalar_key, runtime,
                        constants = std::vector<ConstantValue>(constants.begin(), constants.end())] {
        const Compiling here;
        return std::shared_ptr<const KernelCode>(load_kernel(self->compiled(kernel, constants, false, scalar_key), runtime));
    };
    code->variants = make_variants(std::move(made), key, runtime, std::move(make_scalar));
    return code;
}

GpuCode ParsedLibrary::compile_for_gpu(std::size_t kernel, std::span<const ConstantValue> constants,
                                       const GpuRequest& request) const {
    auto machine = ptx::make_target_machine(request.target);
    Specialization special =
        optimized(code_->read(roots_of(kernel, true, false)), kernel, true, constants, *machine, Next::gpu);
    FunctionInfo function = parsed_.functions[kernel];
    for (unsigned slot : special.inactive_slots) {
        function.arguments[slot].active = false;
    }
    GpuCode out =
        ptx::make_code(special.kernel, special.entry->getName().str(), function, special.threadgroup_memory, request, *machine);
    if (!special.kernel.problems->empty()) {
        throw CompileError("kernel '" + function.name + "': " + *special.kernel.problems, {});
    }
    return out;
}

std::shared_ptr<const GpuCode> ParsedLibrary::gpu_code(std::string_view function, std::span<const ConstantValue> constants,
                                                       const GpuRequest& request) const {
    const std::size_t kernel = index_of(function);
    const std::string key = gpu_key(kernel_key(content_key_, function, constants), request);
    const DiskCache& cache = DiskCache::instance();
    if (auto record = cache.load(key)) {
        if (auto known = read_gpu_code(*record)) {
            return std::make_shared<const GpuCode>(std::move(*known));
        }
    }
    const Compiling compiling;
    auto made = std::make_shared<const GpuCode>(on_deep_stack([&] { return compile_for_gpu(kernel, constants, request); }));
    cache.store(key, write_gpu_code(*made));
    return made;
}

std::string ParsedLibrary::disassemble(std::string_view function, std::span<const ConstantValue> constants,
                                       std::string_view form) const {
    if (form == "ptx") {
        return gpu_code(function, constants, GpuRequest())->ptx;
    }
    if (form != "llvm" && form != "asm") {
        throw SpecializationError("cannot disassemble to '" + std::string(form) + "': there are \"llvm\", \"asm\" and \"ptx\"");
    }
    const Compiling compiling;
    return on_deep_stack([&] { return disassemble_kernel(index_of(function), constants, form); });
}

std::string ParsedLibrary::disassemble_kernel(std::size_t kernel, std::span<const ConstantValue> constants,
                                              std::string_view form) const {
    auto machine = make_target_machine();
    std::string why_scalar;
    if (wants_vectors()) {
        Specialization special =
            optimized(code_->read(roots_of(kernel, true, true)), kernel, true, constants, *machine, Next::vectors);
        auto text = disassemble_vectors(special.kernel, special.entry->getName().str(), parsed_.functions[kernel], *machine,
                                        form, why_scalar);
        if (text) {
            return *text;
        }
    }
    Specialization special = specialize(kernel, constants, *machine);
    std::string note = why_scalar.empty() ? "" : comment_line(form, "runs thread by thread: " + why_scalar);
    return note + listing(*special.kernel.module, *machine, form);
}

} // namespace

std::shared_ptr<const Library> Library::from_source(std::string_view source, const Options& options) {
    const Compiling compiling;
    return std::make_shared<ParsedLibrary>(source, options);
}

std::shared_ptr<const GpuCode> make_gpu_code(const Library& library, std::string_view function,
                                             std::span<const ConstantValue> constants, const GpuRequest& request) {
    return static_cast<const ParsedLibrary&>(library).gpu_code(function, constants, request);
}

std::string version_string() {
    return clang::getClangFullVersion() + ", " + host_target().triple + ", " + host_target().cpu;
}

} // namespace metalki::compiler

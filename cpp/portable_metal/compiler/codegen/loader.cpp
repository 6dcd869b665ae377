// Loads object files with ORC's JIT linker; each kernel is a library of its own, unloaded with its last user.
#include "codegen/loader.hpp"

#include <algorithm>
#include <atomic>
#include <stdexcept>

#include "llvm/ExecutionEngine/Orc/Core.h"
#include "llvm/ExecutionEngine/Orc/ExecutorProcessControl.h"
#include "llvm/ExecutionEngine/Orc/ObjectLinkingLayer.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/OptBisect.h"
#include "llvm/Object/ObjectFile.h"
#include "llvm/Support/LEB128.h"
#include "llvm/Support/raw_ostream.h"

#include "codegen/math_symbols.hpp"
#include "vectorize/vector_math.hpp"

namespace metalki::compiler {
namespace {

[[noreturn]] void fail(const std::string& what, llvm::Error error) {
    throw std::runtime_error(what + ": " + llvm::toString(std::move(error)));
}

std::string& link_problems() {
    thread_local std::string problems;
    return problems;
}

struct CodeRange {
    llvm::orc::ExecutorAddr begin, end;
};
CodeRange& linked_code() {
    thread_local CodeRange range;
    return range;
}

// Notes where the instructions of what this thread links come to lie.
class CodeRangePlugin : public llvm::orc::ObjectLinkingLayer::Plugin {
public:
    void modifyPassConfig(llvm::orc::MaterializationResponsibility&, llvm::jitlink::LinkGraph&,
                          llvm::jitlink::PassConfiguration& passes) override {
        passes.PostFixupPasses.push_back([](llvm::jitlink::LinkGraph& graph) {
            CodeRange range;
            for (llvm::jitlink::Section& section : graph.sections()) {
                const llvm::jitlink::SectionRange place(section);
                const auto protection = static_cast<unsigned>(section.getMemProt());
                if ((protection & static_cast<unsigned>(llvm::orc::MemProt::Exec)) == 0 || place.empty()) {
                    continue;
                }
                range.begin = range.begin ? std::min(range.begin, place.getStart()) : place.getStart();
                range.end = std::max(range.end, place.getEnd());
            }
            linked_code() = range;
            return llvm::Error::success();
        });
    }
    llvm::Error notifyFailed(llvm::orc::MaterializationResponsibility&) override { return llvm::Error::success(); }
    llvm::Error notifyRemovingResources(llvm::orc::JITDylib&, llvm::orc::ResourceKey) override {
        return llvm::Error::success();
    }
    void notifyTransferringResources(llvm::orc::JITDylib&, llvm::orc::ResourceKey, llvm::orc::ResourceKey) override {}
};

// One session for the process. Never destroyed: kernels may be alive until the very end.
struct Linker {
    llvm::orc::ExecutionSession session;
    llvm::orc::ObjectLinkingLayer layer;
    llvm::orc::JITDylib& mathematics;
    std::atomic<unsigned long> count{0};

    explicit Linker(std::unique_ptr<llvm::orc::ExecutorProcessControl> control)
        : session(std::move(control)), layer(session), mathematics(session.createBareJITDylib("mathematics")) {
        // Lookups say only that they failed; the reason arrives here, on the thread that links.
        session.setErrorReporter([](llvm::Error error) { link_problems() += "; " + llvm::toString(std::move(error)); });
        define(mathematics, math_symbols());
        std::vector<RuntimeSymbol> vectors;
        for (const vectorize::VectorSymbol& symbol : vectorize::vector_symbols()) {
            vectors.push_back({symbol.name, symbol.address});
        }
        define(mathematics, vectors);
        layer.addPlugin(std::make_shared<CodeRangePlugin>());
    }

    void define(llvm::orc::JITDylib& library, std::span<const RuntimeSymbol> symbols) {
        llvm::orc::SymbolMap map;
        for (const RuntimeSymbol& symbol : symbols) {
            map[session.intern(llvm::StringRef(symbol.name))] = {llvm::orc::ExecutorAddr::fromPtr(symbol.address),
                                                                 llvm::JITSymbolFlags::Exported};
        }
        llvm::cantFail(library.define(llvm::orc::absoluteSymbols(std::move(map))));
    }

    static Linker& instance() {
        static Linker* linker = [] {
            auto control = llvm::orc::SelfExecutorProcessControl::Create();
            if (!control) {
                fail("cannot load machine code in this process", control.takeError());
            }
            return new Linker(std::move(*control));
        }();
        return *linker;
    }
};

// Passes that take time with the square of a function's length, for little, are left out for long ones.
class LongFunctions : public llvm::OptPassGate {
public:
    explicit LongFunctions(llvm::Module& module) : context_(module.getContext()), before_(context_.getOptPassGate()) {
        is_long_ = llvm::any_of(module, [](const llvm::Function& f) { return f.getInstructionCount() > most_instructions; });
        context_.setOptPassGate(*this);
    }
    ~LongFunctions() override { context_.setOptPassGate(before_); }
    LongFunctions(const LongFunctions&) = delete;
    LongFunctions& operator=(const LongFunctions&) = delete;

    bool isEnabled() const override { return is_long_; }
    bool shouldRunPass(const llvm::StringRef pass, llvm::StringRef) override {
        return pass != "X86 Domain Reassignment Pass"; // moves logic between general and mask registers
    }

private:
    static constexpr unsigned most_instructions = 1500;

    llvm::LLVMContext& context_;
    llvm::OptPassGate& before_;
    bool is_long_ = false;
};

} // namespace

ObjectCode emit(llvm::Module& module, llvm::TargetMachine& machine, llvm::CodeGenFileType type) {
    ObjectCode out;
    llvm::raw_svector_ostream stream(out);
    llvm::legacy::PassManager passes;
    if (machine.addPassesToEmitFile(passes, stream, nullptr, type, /*DisableVerify=*/true)) {
        throw std::runtime_error("this target cannot emit object code");
    }
    const LongFunctions gate(module);
    passes.run(module);
    return out;
}

std::string listing(llvm::Module& module, llvm::TargetMachine& machine, std::string_view form) {
    if (form == "asm") {
        ObjectCode text = emit(module, machine, llvm::CodeGenFileType::AssemblyFile);
        return std::string(text.data(), text.size());
    }
    std::string text;
    llvm::raw_string_ostream stream(text);
    module.print(stream, nullptr);
    return text;
}

std::size_t total_frame_size(const ObjectCode& object) {
    auto file = llvm::object::ObjectFile::createObjectFile(
        llvm::MemoryBufferRef(llvm::StringRef(object.data(), object.size()), "kernel"));
    if (!file) {
        fail("damaged object code", file.takeError());
    }
    std::size_t total = 0;
    for (const llvm::object::SectionRef& section : (*file)->sections()) {
        auto name = section.getName();
        auto contents = section.getContents();
        if (!name || !contents || *name != ".stack_sizes") {
            llvm::consumeError(name.takeError());
            llvm::consumeError(contents.takeError());
            continue;
        }
        // Entries: an address (8 bytes, not yet relocated), then the size as ULEB128.
        const auto* at = contents->bytes_begin();
        while (contents->bytes_end() - at > 8) {
            at += 8;
            unsigned length = 0;
            total += llvm::decodeULEB128(at, &length, contents->bytes_end());
            at += length;
            total += 16; // return address and saved frame pointer
        }
    }
    return total;
}

LoadedObject load(std::string_view object, const std::string& entry, std::span<const RuntimeSymbol> symbols) {
    Linker& linker = Linker::instance();
    std::string name = "kernel" + std::to_string(linker.count++);
    llvm::orc::JITDylib& library = linker.session.createBareJITDylib(name);
    LoadedObject out;
    out.keep_alive = std::shared_ptr<const void>(&library, [&linker](const void* handle) {
        auto* dying = const_cast<llvm::orc::JITDylib*>(static_cast<const llvm::orc::JITDylib*>(handle));
        llvm::consumeError(linker.session.removeJITDylib(*dying));
    });
    linker.define(library, symbols);
    library.addToLinkOrder(linker.mathematics);
    auto copy = llvm::MemoryBuffer::getMemBufferCopy(llvm::StringRef(object), name);
    if (auto error = linker.layer.add(library, std::move(copy))) {
        fail("cannot link the kernel", std::move(error));
    }
    link_problems().clear();
    linked_code() = {};
    auto address = linker.session.lookup(llvm::orc::makeJITDylibSearchOrder(&library), linker.session.intern(entry));
    if (!address) {
        fail("cannot link the kernel" + link_problems(), address.takeError());
    }
    out.entry = address->getAddress().toPtr<const void*>();
    out.code_begin = linked_code().begin.toPtr<const void*>();
    out.code_end = linked_code().end.toPtr<const void*>();
    return out;
}

} // namespace metalki::compiler

// Clang tells its stack of loops where each begins and ends; the linker's --wrap leads these calls through here.
#include "frontend/source_loops.hpp"

#include <vector>

#include "clang/AST/ASTContext.h"
#include "clang/AST/Attr.h"
#include "clang/Basic/CodeGenOptions.h"
#include "llvm/IR/DebugLoc.h"
#include "llvm/IR/Function.h"

namespace metalki::compiler {
namespace {

thread_local SourceLoops* noted = nullptr;
thread_local std::vector<llvm::BasicBlock*> open_headers;

void note_end(llvm::BasicBlock* header) {
    const auto end = static_cast<unsigned>(noted->loops.size());
    for (const llvm::BasicBlock& block : *header->getParent()) {
        noted->written.insert({&block, end});
    }
    noted->loops.push_back({header, end});
}

} // namespace

NoteLoops::NoteLoops(SourceLoops& loops) {
    noted = &loops;
    open_headers.clear();
}
NoteLoops::~NoteLoops() {
    noted = nullptr;
}

#define METALKI_PUSH                                                                                                           \
    "_ZN5clang7CodeGen13LoopInfoStack4pushEPN4llvm10BasicBlockERNS_10ASTContextERKNS_14CodeGenOptionsENS2_8ArrayRefIPKNS_"     \
    "4AttrEEERKNS2_8DebugLocESH_b"
#define METALKI_POP "_ZN5clang7CodeGen13LoopInfoStack3popEv"

void clangs_push(void* stack, llvm::BasicBlock* header, clang::ASTContext& context, const clang::CodeGenOptions& options,
                 llvm::ArrayRef<const clang::Attr*> attributes, const llvm::DebugLoc& start, const llvm::DebugLoc& end,
                 bool must_progress) asm("__real_" METALKI_PUSH);
void clangs_pop(void* stack) asm("__real_" METALKI_POP);

__attribute__((used)) void begin_loop(void* stack, llvm::BasicBlock* header, clang::ASTContext& context,
                                      const clang::CodeGenOptions& options, llvm::ArrayRef<const clang::Attr*> attributes,
                                      const llvm::DebugLoc& start, const llvm::DebugLoc& end,
                                      bool must_progress) asm("__wrap_" METALKI_PUSH);
__attribute__((used)) void end_loop(void* stack) asm("__wrap_" METALKI_POP);

void begin_loop(void* stack, llvm::BasicBlock* header, clang::ASTContext& context, const clang::CodeGenOptions& options,
                llvm::ArrayRef<const clang::Attr*> attributes, const llvm::DebugLoc& start, const llvm::DebugLoc& end,
                bool must_progress) {
    open_headers.push_back(header);
    clangs_push(stack, header, context, options, attributes, start, end, must_progress);
}

void end_loop(void* stack) {
    llvm::BasicBlock* header = open_headers.empty() ? nullptr : open_headers.back();
    if (header) {
        open_headers.pop_back();
    }
    if (noted && header && header->getParent()) {
        note_end(header);
    }
    clangs_pop(stack);
}

} // namespace metalki::compiler

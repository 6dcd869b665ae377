// Keeps what Clang announces while it parses, and announces it to code generators afterwards.
#pragma once

#include <functional>
#include <vector>

#include "clang/AST/ASTConsumer.h"
#include "clang/AST/DeclGroup.h"

namespace metalki::compiler {

// Code generation waits until it is asked for, and may happen more than once.
class Recorder : public clang::ASTConsumer {
public:
    std::vector<clang::Decl*> top_level;

    bool HandleTopLevelDecl(clang::DeclGroupRef group) override {
        top_level.insert(top_level.end(), group.begin(), group.end());
        return record([group](clang::ASTConsumer& c) { c.HandleTopLevelDecl(group); });
    }
    void HandleInlineFunctionDefinition(clang::FunctionDecl* d) override {
        record([d](clang::ASTConsumer& c) { c.HandleInlineFunctionDefinition(d); });
    }
    void HandleInterestingDecl(clang::DeclGroupRef group) override {
        record([group](clang::ASTConsumer& c) { c.HandleInterestingDecl(group); });
    }
    void HandleTagDeclDefinition(clang::TagDecl* d) override {
        record([d](clang::ASTConsumer& c) { c.HandleTagDeclDefinition(d); });
    }
    void HandleTagDeclRequiredDefinition(const clang::TagDecl* d) override {
        record([d](clang::ASTConsumer& c) { c.HandleTagDeclRequiredDefinition(d); });
    }
    void HandleCXXImplicitFunctionInstantiation(clang::FunctionDecl* d) override {
        record([d](clang::ASTConsumer& c) { c.HandleCXXImplicitFunctionInstantiation(d); });
    }
    void HandleCXXStaticMemberVarInstantiation(clang::VarDecl* d) override {
        record([d](clang::ASTConsumer& c) { c.HandleCXXStaticMemberVarInstantiation(d); });
    }
    void CompleteTentativeDefinition(clang::VarDecl* d) override {
        record([d](clang::ASTConsumer& c) { c.CompleteTentativeDefinition(d); });
    }
    void HandleVTable(clang::CXXRecordDecl* d) override {
        record([d](clang::ASTConsumer& c) { c.HandleVTable(d); });
    }

    // From the start, and of what comes up meanwhile at once: code generation loads more of the standard library as it goes.
    void play(clang::ASTConsumer& consumer) {
        std::size_t recorded = events_.size();
        listener_ = &consumer;
        for (std::size_t i = 0; i < recorded; ++i) {
            std::function<void(clang::ASTConsumer&)> event = events_[i]; // the list may grow and move
            event(consumer);
        }
    }
    void stop() { listener_ = nullptr; }

private:
    bool record(std::function<void(clang::ASTConsumer&)> event) {
        if (listener_) {
            event(*listener_);
        }
        events_.push_back(std::move(event));
        return true;
    }
    std::vector<std::function<void(clang::ASTConsumer&)>> events_;
    clang::ASTConsumer* listener_ = nullptr;
};

} // namespace metalki::compiler

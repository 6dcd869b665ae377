// Clang looks for things to warn about in each instantiation of a template; after a few it has said what there is to say.
#pragma once

namespace metalki::compiler {

// While an object of this class lives in a thread, Clang looks for warnings in the first few instantiations of each template.
class FewerRepeatedChecks {
public:
    FewerRepeatedChecks();
    ~FewerRepeatedChecks();
    FewerRepeatedChecks(const FewerRepeatedChecks&) = delete;
    FewerRepeatedChecks& operator=(const FewerRepeatedChecks&) = delete;
};

} // namespace metalki::compiler

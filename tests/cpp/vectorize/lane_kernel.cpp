// See the header.
#include "lane_kernel.hpp"

#include <doctest/doctest.h>

#include <stdexcept>

#include "llvm/AsmParser/Parser.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Verifier.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/raw_ostream.h"

#include "codegen/host_target.hpp"
#include "codegen/loader.hpp"
#include "codegen/optimize.hpp"
#include "compiler/compiler.hpp"
#include "vectorize/prepare.hpp"
#include "vectorize/vectorize.hpp"

namespace vectorize_test {
namespace {

using compiler::ThreadgroupContext;
using compiler::ThreadInput;

constexpr std::string_view declared = R"(
declare i32 @__metalki_input(i32) memory(none) nounwind willreturn
declare i32 @__metalki_simd_lane() memory(none) nounwind willreturn
declare i64 @__metalki_simd(i32, i32, i32, i64, i64, i32, i32) convergent nounwind
declare void @__metalki_barrier(i32) convergent nounwind
declare ptr @__metalki_threadgroup_memory() memory(none) nounwind willreturn
)";

struct Position {
    std::string_view name;
    ThreadInput input;
    unsigned axis;
};
constexpr Position positions[] = {
    {"%x", ThreadInput::position_in_grid, 0},         {"%y", ThreadInput::position_in_grid, 1},
    {"%z", ThreadInput::position_in_grid, 2},         {"%lx", ThreadInput::position_in_threadgroup, 0},
    {"%ly", ThreadInput::position_in_threadgroup, 1}, {"%lane", ThreadInput::index_in_simdgroup, 0},
    {"%index", ThreadInput::index_in_threadgroup, 0}, {"%group", ThreadInput::threadgroup_position, 0},
    {"%simdgroup", ThreadInput::simdgroup_index, 0},
};

bool mentions(std::string_view text, std::string_view name) {
    for (std::size_t at = text.find(name); at != text.npos; at = text.find(name, at + 1)) {
        char next = at + name.size() < text.size() ? text[at + name.size()] : ' ';
        if (!std::isalnum(static_cast<unsigned char>(next)) && next != '.' && next != '_') {
            return true;
        }
    }
    return false;
}

std::string program(std::string_view text, std::string_view declarations) {
    std::string out = std::string(declared) + std::string(declarations) + "\ndefine void @kernel(ptr %c) nounwind {\nentry:\n";
    for (const Position& position : positions) {
        if (mentions(text, position.name)) {
            out += "  " + std::string(position.name) + " = call i32 @__metalki_input(i32 " +
                   std::to_string(unsigned(position.input) + position.axis) + ")\n";
        }
    }
    out += R"(  %table = load ptr, ptr %c
  %out = load ptr, ptr %table
  %second = getelementptr i8, ptr %table, i64 8
  %in = load ptr, ptr %second
  %third = getelementptr i8, ptr %table, i64 16
  %number = load ptr, ptr %third
  %n = load i32, ptr %number
)";
    return out + std::string(text) + "}\n";
}

// The thread that the scalar kernel runs for.
thread_local const ThreadgroupContext* running_group = nullptr;
thread_local Uint3 running_thread{};

std::uint32_t axis(const Uint3& of, unsigned which) {
    return which % 3 == 0 ? of.x : which % 3 == 1 ? of.y : of.z;
}

extern "C" std::uint32_t scalar_input(std::uint32_t which) {
    const ThreadgroupContext& group = *running_group;
    const Uint3& size = group.threads_in_this_threadgroup;
    std::uint32_t index = running_thread.x + size.x * (running_thread.y + size.y * running_thread.z);
    switch (static_cast<ThreadInput>(which < unsigned(ThreadInput::index_in_threadgroup) ? which / 3 * 3 : which)) {
    case ThreadInput::position_in_grid:
        return axis(group.threadgroup_position, which) * axis(group.threads_per_threadgroup, which) +
               axis(running_thread, which);
    case ThreadInput::position_in_threadgroup:
        return axis(running_thread, which);
    case ThreadInput::threadgroup_position:
        return axis(group.threadgroup_position, which);
    case ThreadInput::index_in_threadgroup:
        return index;
    case ThreadInput::index_in_simdgroup:
        return index % compiler::simd_width;
    case ThreadInput::simdgroup_index:
        return index / compiler::simd_width;
    default:
        throw std::logic_error("no such input in these tests");
    }
}

using GroupAction = std::function<void(ThreadgroupContext&)>;

// Every threadgroup of the launch, those at the edges smaller.
void for_each_group(const Launch& launch, const std::vector<void*>& arguments, const GroupAction& action) {
    auto groups = [](std::uint32_t threads, std::uint32_t size) { return (threads + size - 1) / size; };
    const Uint3 &grid = launch.grid, &size = launch.threadgroup;
    alignas(64) static thread_local std::array<std::uint8_t, 32768> memory;
    std::vector<std::uint32_t> places(3 * compiler::max_positions);
    ThreadgroupContext context{};
    context.arguments = arguments.data();
    context.static_threadgroup_memory = memory.data();
    context.threadgroups_per_grid = {groups(grid.x, size.x), groups(grid.y, size.y), groups(grid.z, size.z)};
    context.threads_per_threadgroup = size;
    context.threads_per_grid = grid;
    context.positions = places.data();
    for (std::uint32_t z = 0; z < context.threadgroups_per_grid.z; ++z)
        for (std::uint32_t y = 0; y < context.threadgroups_per_grid.y; ++y)
            for (std::uint32_t x = 0; x < context.threadgroups_per_grid.x; ++x) {
                Uint3 own{std::min(size.x, grid.x - x * size.x), std::min(size.y, grid.y - y * size.y),
                          std::min(size.z, grid.z - z * size.z)};
                context.threadgroup_position = {x, y, z};
                context.threads_in_this_threadgroup = own;
                for (std::uint32_t i = 0; i < own.x * own.y * own.z; ++i) {
                    places[i] = i % own.x;
                    places[compiler::max_positions + i] = i / own.x % own.y;
                    places[2 * compiler::max_positions + i] = i / own.x / own.y;
                }
                action(context);
            }
}

struct Arguments {
    Words out, in;
    std::uint32_t number;
    std::vector<void*> table;
    Arguments(const Launch& launch, Words o, Words i)
        : out(std::move(o)), in(std::move(i)), number(launch.number), table{out.data(), in.data(), &number} {}
};

compiler::LoadedObject load(Kernel& kernel, const std::string& entry) {
    compiler::ObjectCode object = compiler::emit(kernel.module(), kernel.machine(), llvm::CodeGenFileType::ObjectFile);
    std::vector<compiler::RuntimeSymbol> symbols{{"__metalki_input", reinterpret_cast<const void*>(&scalar_input)}};
    return compiler::load({object.data(), object.size()}, entry, symbols);
}

void make_vectors(Kernel& kernel, Geometry geometry) {
    kernel.prepare();
    llvm::Function& entry = compiler::vectorize::vectorize(kernel.function(), geometry, "vectors", kernel.machine());
    std::string problems;
    llvm::raw_string_ostream stream(problems);
    INFO(problems);
    REQUIRE_FALSE(llvm::verifyModule(kernel.module(), &stream));
    kernel.function().setLinkage(llvm::GlobalValue::InternalLinkage);
    compiler::optimize_vectors(kernel.module(), kernel.machine());
}

} // namespace

Kernel::Kernel(std::string_view text, std::string_view declarations) : machine_(compiler::make_target_machine()) {
    llvm::SMDiagnostic problem;
    std::string whole = program(text, declarations);
    module_ = llvm::parseAssemblyString(whole, problem, context_);
    if (!module_) {
        throw std::logic_error("line " + std::to_string(problem.getLineNo()) + ": " + problem.getMessage().str() + ": " +
                               problem.getLineContents().str());
    }
    module_->setDataLayout(machine_->createDataLayout());
    module_->setTargetTriple(machine_->getTargetTriple().str());
    std::string problems;
    llvm::raw_string_ostream stream(problems);
    if (llvm::verifyModule(*module_, &stream)) {
        throw std::logic_error(problems);
    }
}

llvm::Value& Kernel::value(std::string_view name) {
    for (llvm::Instruction& instruction : llvm::instructions(function())) {
        if (instruction.getName() == llvm::StringRef(name)) {
            return instruction;
        }
    }
    throw std::logic_error("no value " + std::string(name));
}

llvm::BasicBlock& Kernel::block(std::string_view name) {
    for (llvm::BasicBlock& block : function()) {
        if (block.getName() == llvm::StringRef(name)) {
            return block;
        }
    }
    throw std::logic_error("no block " + std::string(name));
}

Kernel& Kernel::prepare() {
    compiler::vectorize::prepare(function(), *machine_);
    return *this;
}

Analysed::Analysed(Kernel& kernel, Geometry geometry)
    : dominators(kernel.function()), loops(dominators), divergence(kernel.function(), loops, geometry) {}

Geometry flat() {
    return {LaneLayout::flat, 32, true};
}
Geometry rows(bool full) {
    return {LaneLayout::rows, 32, full};
}
Geometry columns(unsigned width, bool full) {
    return {LaneLayout::columns, width, full};
}
Geometry table(bool full) {
    return {LaneLayout::table, 32, full};
}

Words run_vectors(std::string_view text, const Launch& launch, Words out, Words in, std::string_view declarations) {
    Kernel kernel(text, declarations);
    make_vectors(kernel, launch.geometry);
    compiler::LoadedObject code = load(kernel, "vectors");
    Arguments arguments(launch, std::move(out), std::move(in));
    auto* entry = const_cast<void*>(code.entry);
    if (launch.geometry.layout == LaneLayout::flat) {
        ThreadgroupContext context{};
        context.arguments = arguments.table.data();
        context.threads_per_grid = launch.grid;
        for (std::uint32_t z = 0; z < launch.grid.z; ++z)
            for (std::uint32_t y = 0; y < launch.grid.y; ++y)
                reinterpret_cast<compiler::RowEntry>(entry)(&context, 0, launch.grid.x, y, z);
    } else {
        for_each_group(launch, arguments.table,
                       [&](ThreadgroupContext& context) { reinterpret_cast<compiler::ThreadgroupEntry>(entry)(&context); });
    }
    return arguments.out;
}

Words run_threads(std::string_view text, const Launch& launch, Words out, Words in, std::string_view declarations) {
    Kernel kernel(text, declarations);
    compiler::LoadedObject code = load(kernel, "kernel");
    Arguments arguments(launch, std::move(out), std::move(in));
    auto* entry = reinterpret_cast<void (*)(const ThreadgroupContext*)>(const_cast<void*>(code.entry));
    for_each_group(launch, arguments.table, [&](ThreadgroupContext& context) {
        const Uint3& size = context.threads_in_this_threadgroup;
        running_group = &context;
        for (running_thread.z = 0; running_thread.z < size.z; ++running_thread.z)
            for (running_thread.y = 0; running_thread.y < size.y; ++running_thread.y)
                for (running_thread.x = 0; running_thread.x < size.x; ++running_thread.x)
                    entry(&context);
    });
    return arguments.out;
}

Words run_once(Kernel& kernel, Words out, Words in) {
    compiler::LoadedObject code = load(kernel, "kernel");
    Arguments arguments({}, std::move(out), std::move(in));
    ThreadgroupContext context{};
    context.arguments = arguments.table.data();
    reinterpret_cast<void (*)(const ThreadgroupContext*)>(const_cast<void*>(code.entry))(&context);
    return arguments.out;
}

std::string vector_code(std::string_view text, Geometry geometry, std::string_view declarations) {
    Kernel kernel(text, declarations);
    make_vectors(kernel, geometry);
    std::string out;
    llvm::raw_string_ostream stream(out);
    kernel.module().print(stream, nullptr);
    return out;
}

void compare(std::string_view text, std::uint32_t number, std::string_view declarations) {
    const Launch launches[] = {
        {flat(), {96, 1, 1}, {32, 1, 1}, number},    {flat(), {45, 2, 1}, {9, 2, 1}, number},
        {rows(), {64, 2, 1}, {64, 1, 1}, number},    {rows(false), {90, 1, 1}, {45, 1, 1}, number},
        {columns(8), {16, 8, 1}, {8, 4, 1}, number}, {columns(4, false), {4, 21, 1}, {4, 21, 1}, number},
        {table(), {12, 8, 1}, {12, 8, 1}, number},   {table(false), {5, 7, 2}, {5, 7, 2}, number},
    };
    for (const Launch& launch : launches) {
        bool of_threadgroup = mentions(text, "%lane") || mentions(text, "%lx") || mentions(text, "%index");
        if (launch.geometry.layout == LaneLayout::flat && of_threadgroup) {
            continue;
        }
        Words in(4096), out(4096, 7);
        for (std::uint32_t i = 0; i < in.size(); ++i) {
            in[i] = i * 2654435761u >> 7;
        }
        INFO("layout ", unsigned(launch.geometry.layout), " full ", launch.geometry.full, "\n", std::string(text));
        Words vectors = run_vectors(text, launch, out, in, declarations);
        Words threads = run_threads(text, launch, out, in, declarations);
        std::size_t first = 0;
        while (first < vectors.size() && vectors[first] == threads[first]) {
            ++first;
        }
        INFO("first difference at ", first);
        CHECK(vectors == threads);
    }
}

bool has(const llvm::TargetMachine& machine, const char* feature) {
    return machine.getTargetTriple().isX86() && machine.getMCSubtargetInfo()->checkFeatures(feature);
}

std::size_t count(std::string_view text, std::string_view part) {
    std::size_t found = 0;
    for (std::size_t at = text.find(part); at != text.npos; at = text.find(part, at + part.size())) {
        ++found;
    }
    return found;
}

} // namespace vectorize_test

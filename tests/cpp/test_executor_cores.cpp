// Where helper threads run: off the caller's core, within what the host program allows.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include <sched.h>
#include <unistd.h>

#include "executor_fixture.hpp"

using namespace executor_test;

namespace {

// Until a helper has come, the caller waits in its threadgroup.
void note_helper(const ThreadgroupContext* c) {
    auto* helper = argument<std::atomic<pid_t>>(c, 0);
    const pid_t caller = *argument<pid_t>(c, 1);
    if (gettid() != caller)
        *helper = gettid();
    else
        for (int i = 0; i < 10000 && *helper == 0; ++i)
            std::this_thread::sleep_for(std::chrono::microseconds(100));
}

class Cores {
public:
    explicit Cores(pid_t thread = 0) : thread_(thread) { sched_getaffinity(thread_, sizeof set_, &set_); }
    std::vector<int> list() const {
        std::vector<int> out;
        for (int core = 0; core < CPU_SETSIZE; ++core)
            if (CPU_ISSET(core, &set_))
                out.push_back(core);
        return out;
    }
    bool contain(int core) const { return CPU_ISSET(core, &set_); }
    void use() const { sched_setaffinity(thread_, sizeof set_, &set_); }
    static void use(int core, pid_t thread = 0) {
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET(core, &one);
        sched_setaffinity(thread, sizeof one, &one);
    }

private:
    pid_t thread_;
    cpu_set_t set_{};
};

pid_t helper_of(cpu::Executor& executor) {
    std::atomic<pid_t> helper{0};
    pid_t caller = gettid();
    CHECK_FALSE(launch(executor, looping(note_helper), {64, 1, 1}, {1, 1, 1}, {&helper, &caller}));
    return helper;
}

} // namespace

TEST_CASE("helpers run on other cores than the caller") {
    const Cores all;
    if (all.list().size() < 2)
        return;
    const int first = all.list()[0], second = all.list()[1];
    cpu::Executor executor(2);
    helper_of(executor); // starts the helper, which may run wherever this thread may

    Cores::use(first);
    pid_t helper = helper_of(executor);
    REQUIRE(helper != 0);
    CHECK_FALSE(Cores(helper).contain(first));
    CHECK(Cores(helper).contain(second));

    Cores::use(second);
    CHECK(helper_of(executor) == helper);
    CHECK(Cores(helper).contain(first));
    CHECK_FALSE(Cores(helper).contain(second));

    SUBCASE("a helper that the host program moved stays there") {
        Cores::use(second, helper);
        Cores::use(first);
        CHECK(helper_of(executor) == helper);
        CHECK(Cores(helper).list() == std::vector{second});
        Cores::use(second);
        CHECK(helper_of(executor) == helper);
        CHECK(Cores(helper).list() == std::vector{second});
    }
    all.use();
}

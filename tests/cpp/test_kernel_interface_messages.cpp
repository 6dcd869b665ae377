// What kernels print, as C++ callers get it.
#include <cstdint>

#include "kernel_interface_fixture.hpp"

using namespace metalki;

namespace {

// Collects messages while it lives.
class Collector {
public:
    Collector() {
        set_message_handler([this](const KernelMessage& message) { messages.push_back(message); });
    }
    ~Collector() { set_message_handler(print_message); }
    Collector(const Collector&) = delete;
    Collector& operator=(const Collector&) = delete;

    std::string text() const {
        std::string all;
        for (const KernelMessage& message : messages)
            all += message.text;
        return all;
    }

    std::vector<KernelMessage> messages;
};

Kernel printing(const std::string& body) {
    return kernel_of("#include <metal_logging>\n#include <kernel_interface>\nconstant os_log custom(\"sub\", \"cat\");\n"
                     "kernel void k(constant int& x, KI_ARGS) { uint i = KI.get_global_id().x; " +
                     body + " }");
}

} // namespace

TEST_CASE("messages come with the wait for the queue") {
    Collector collector;
    Queue queue(default_device());
    launch(printing(R"(KI.print("x = ", x, "\n"); custom.log_error("error %d", x);)"), std::tuple{7},
           {.ndrange = 1, .queue = &queue});
    queue.synchronize();
    REQUIRE(collector.messages.size() == 2);
    CHECK(collector.messages[0].kind == MessageKind::print);
    CHECK(collector.messages[0].text == "x = 7\n");
    CHECK(collector.messages[1].kind == MessageKind::log);
    CHECK(collector.messages[1].level == MessageLevel::error);
    CHECK(collector.messages[1].subsystem == "sub");
    CHECK(collector.messages[1].category == "cat");
    CHECK(collector.messages[1].text == "error 7");
}

TEST_CASE("a queue's wait brings its own messages, the device's all of them") {
    Collector collector;
    const Kernel show = printing("KI.print(x);");
    Queue a(default_device()), b(default_device());
    launch(show, std::tuple{1}, {.ndrange = 1, .queue = &a});
    launch(show, std::tuple{2}, {.ndrange = 1, .queue = &b});
    a.synchronize();
    CHECK(collector.text() == "1");
    default_device().synchronize();
    CHECK(collector.text() == "12");
}

TEST_CASE("messages before a fault are there") {
    Collector collector;
    launch(printing(R"(KI.print("before"); *(device int*)16ul = x;)"), std::tuple{1}, {.ndrange = 1});
    CHECK_THROWS_AS(global_queue(default_device()).synchronize(), DeviceError);
    CHECK(collector.text() == "before");
}

TEST_CASE("without a handler messages wait to be taken") {
    set_message_handler({});
    launch(printing("KI.print(i);"), std::tuple{1}, {.ndrange = 3});
    CHECK(messages_may_come());
    const Queue& queue = global_queue(default_device());
    queue.synchronize();
    CHECK(waiting_messages() == 3);
    std::string text;
    while (auto message = take_message(queue))
        text += message->text;
    set_message_handler(print_message);
    CHECK(text.size() == 3);
    CHECK_FALSE(take_message().has_value());
    CHECK_FALSE(messages_may_come());
}

TEST_CASE("what a handler throws comes out of the wait, and loses no other message") {
    std::string text;
    set_message_handler([&](const KernelMessage& message) {
        if (message.text == "1")
            throw std::runtime_error("refused");
        text += message.text;
    });
    const Kernel show = printing("KI.print(x);");
    for (int x = 0; x < 3; ++x)
        launch(show, std::tuple{x}, {.ndrange = 1});
    const Queue& queue = global_queue(default_device());
    CHECK(has(message_of<std::runtime_error>([&] { queue.synchronize(); }), "refused"));
    CHECK(text == "0");
    queue.synchronize();
    set_message_handler(print_message);
    CHECK(text == "02");
}

TEST_CASE("a handler may launch and wait") {
    const Kernel quiet = kernel_of("kernel void k(device int* x) { x[0] += 1; }");
    const Buffer x = buffer_of<int>({0});
    set_message_handler([&](const KernelMessage&) {
        launch(quiet, std::tuple{x}, {.ndrange = 1});
        default_device().synchronize();
    });
    launch(printing("KI.print(1); KI.print(2);"), std::tuple{1}, {.ndrange = 1});
    default_device().synchronize();
    set_message_handler(print_message);
    CHECK(values_of<int>(x) == std::vector{2});
}

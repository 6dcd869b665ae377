// What kernels print goes to Python on the thread that waits for it.
#include <chrono>

#include "module.hpp"

namespace metalki::python {

namespace {

// Deliveries under way in all threads; under the GIL. Who comes meanwhile waits for them in Python.
int deliveries = 0;

void deliver(const Queue* queue) {
    if (waiting_messages() == 0 && deliveries == 0) [[likely]]
        return;
    static PyObject* const function = nb::module_::import_("metalki._messages").attr("deliver").inc_ref().ptr();
    struct Counted {
        Counted() { ++deliveries; }
        ~Counted() { --deliveries; }
    } const counted;
    nb::borrow(function)(queue ? nb::cast(*queue) : nb::none());
}

nb::object take(nb::handle queue) {
    const std::optional<KernelMessage> message = queue.is_none() ? take_message() : take_message(nb::cast<Queue>(queue));
    if (!message)
        return nb::none();
    const auto text = [](const std::string& bytes) {
        return nb::steal(PyUnicode_DecodeUTF8(bytes.data(), static_cast<Py_ssize_t>(bytes.size()), "replace"));
    };
    return nb::make_tuple(message->kind == MessageKind::print, static_cast<int>(message->level), text(message->subsystem),
                          text(message->category), text(message->text));
}

// For the end of the interpreter: what was not waited for is, for a while.
void finish_messages(double seconds) {
    if (!messages_may_come())
        return;
    {
        GilRelease release;
        const auto limit = std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(seconds));
        for (const Device& device : devices()) {
            try {
                device.synchronize_for(limit);
            } catch (const Error&) {
                continue; // nobody is there to be told
            }
        }
    }
    deliver(nullptr);
}

} // namespace

void deliver_messages(const Queue& queue) {
    deliver(&queue);
}
void deliver_messages(const Device&) {
    deliver(nullptr);
}

void bind_messages(nb::module_& m) {
    set_message_handler({}); // C++ would print them with the GIL released
    m.def(
        "take_message", &take, nb::arg("queue").none(),
        "The next message of a queue, of all for None: (printed, level, subsystem, category, text); None when there is none.");
    m.def("waiting_messages", &waiting_messages, "How many messages wait.");
    m.def("finish_messages", &finish_messages, nb::arg("seconds"),
          "Waits for kernels that print and delivers what they wrote.");
}

} // namespace metalki::python

// Writes the messages of kernels into the buffer that compiler/gpu_code.hpp describes.
#ifndef METALKI_GPU_LOG_H
#define METALKI_GPU_LOG_H
#pragma clang system_header

namespace metal {

struct __gpu_log_header {
    uint capacity, lowest, used, end, dropped_prints, dropped_logs;
    ulong reserved;
};
struct __gpu_log_record {
    uint bytes, target, count, complete, subsystem, category, format, reserved;
};
struct __gpu_log_argument {
    uint type;
    ushort rows, columns;
    uint offset, bytes;
};
static_assert(sizeof(__gpu_log_header) == 32 && sizeof(__gpu_log_record) == 32 && sizeof(__gpu_log_argument) == 16,
              "gpu_code.hpp differs");

constexpr uint __gpu_longest_text = 8192;

__fi uint __gpu_text_length(const char *text) {
    uint n = 0;
    if (text) {
#pragma clang loop unroll(disable)
        while (n < __gpu_longest_text && text[n] != 0) n++;
    }
    return n;
}
// Elements as LogArgument::data points at them: columns of three are padded to four.
__fi uint __gpu_element_bytes(uint type) {
    return type <= 1 || type == 11 ? 1 : type <= 3 || type == 8 || type == 9 ? 2 : type == 6 || type == 7 ? 8 : 4;
}
__fi uint __gpu_argument_bytes(const __log_argument &a) {
    if (a.type == __log_pointer) return 8;
    const uint rows = a.columns > 1 && a.rows == 3 ? 4 : a.rows;
    return a.columns * rows * __gpu_element_bytes(a.type);
}
__fi uint __gpu_write_text(char *record, uint at, const char *text, uint length) {
#pragma clang loop unroll(disable)
    for (uint i = 0; i < length; i++) record[at + i] = text[i];
    record[at + length] = 0;
    return at + length + 1;
}

} // namespace metal

extern "C" __attribute__((always_inline)) void __metalki_gpu_log_message(ulong log, uint target, const char *subsystem,
                                                                         const char *category, const char *format,
                                                                         const metal::__log_argument *arguments, uint count) {
    using namespace metal;
    __gpu_log_header *header = (__gpu_log_header *)log;
    if (!header || target < header->lowest) return;
    const uint subsystem_length = __gpu_text_length(subsystem), category_length = __gpu_text_length(category),
               format_length = __gpu_text_length(format);
    uint bytes = sizeof(__gpu_log_record) + count * sizeof(__gpu_log_argument);
    uint texts = 3 + subsystem_length + category_length + format_length;
#pragma clang loop unroll(full)
    for (uint i = 0; i < count; i++) {
        if (arguments[i].type == __log_text) texts += __gpu_text_length((const char *)arguments[i].data) + 1;
        else bytes += (__gpu_argument_bytes(arguments[i]) + 7) / 8 * 8;
    }
    const uint whole = (bytes + texts + 7) / 8 * 8;
    const uint at = __atomic_fetch_add(&header->used, whole, __ATOMIC_RELAXED);
    if (at > header->capacity || whole > header->capacity - at) {
        if (at < header->capacity) header->end = at; // only one message reaches over the end
        __atomic_fetch_add(target >= __log_print ? &header->dropped_prints : &header->dropped_logs, 1u, __ATOMIC_RELAXED);
        if (at > 0x7fffffff) __atomic_fetch_sub(&header->used, whole, __ATOMIC_RELAXED); // it must not wrap around
        return;
    }
    char *record = (char *)(header + 1) + at;
    __gpu_log_record *head = (__gpu_log_record *)record;
    __gpu_log_argument *list = (__gpu_log_argument *)(head + 1);
    uint place = sizeof(__gpu_log_record) + count * sizeof(__gpu_log_argument), text = bytes;
    head->bytes = whole;
    head->target = target;
    head->count = count;
    head->subsystem = subsystem ? text : 0;
    text = __gpu_write_text(record, text, subsystem, subsystem_length);
    head->category = category ? text : 0;
    text = __gpu_write_text(record, text, category, category_length);
    head->format = format ? text : 0;
    text = __gpu_write_text(record, text, format, format_length);
#pragma clang loop unroll(full)
    for (uint i = 0; i < count; i++) {
        const __log_argument a = arguments[i];
        list[i].type = a.type;
        list[i].rows = a.rows;
        list[i].columns = a.columns;
        if (a.type == __log_text) {
            const uint length = __gpu_text_length((const char *)a.data);
            list[i].offset = text;
            list[i].bytes = length;
            text = __gpu_write_text(record, text, (const char *)a.data, length);
            continue;
        }
        const uint n = __gpu_argument_bytes(a);
        list[i].offset = place;
        list[i].bytes = n;
        if (a.type == __log_pointer) *(ulong *)(record + place) = (ulong)a.data;
        else __builtin_memcpy(record + place, a.data, n);
        place += (n + 7) / 8 * 8;
    }
    head->complete = 1;
}

#endif

"""What kernels print: KI.print and printf to sys.stdout, os_log to the logger metalki.kernel."""

from __future__ import annotations

import asyncio
import contextlib
import io
import logging
import os
import subprocess
import sys
import textwrap
import threading
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import metalki as mk
from metalki import kernel_interface as KI

HEAD = "#include <metal_stdlib>\n#include <metal_logging>\n#include <kernel_interface>\nusing namespace metal;\n"


def kernel(body: str, before: str = "", parameters: str = "") -> mk.Kernel:
    """A kernel with the thread's index `i` and KI, and further parameters in front."""
    return mk.Kernel(
        f"{HEAD}{before}\nkernel void k({parameters}KI_ARGS) {{ uint i = KI.get_global_id().x; (void)i; {body} }}"
    )


def printed(capsys: pytest.CaptureFixture[str], body: str, *arguments: Any, n: int = 1, **options: str) -> str:
    """What a kernel of `n` threads prints."""
    kernel(body, **options)(*arguments, ndrange=n)
    mk.synchronize()
    return capsys.readouterr().out


def outputs(capsys: pytest.CaptureFixture[str], call: str, table: list[tuple[str, str]]) -> dict[str, str]:
    """What one kernel prints by `call` for each of the arguments in the table."""
    body = "".join(call.format(arguments) + r'; printf("\x01");' for arguments, _ in table)
    return dict(zip((arguments for arguments, _ in table), printed(capsys, body).split("\x01"), strict=False))


@pytest.fixture
def logs(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.DEBUG, logger="metalki.kernel")
    return caplog


# Formats


FORMATS = [
    (r'"plain"', "plain"),
    (r'"100%%"', "100%"),
    (r'"%d %i", -5, 6', "-5 6"),
    (r'"%u", -1', "4294967295"),
    (r'"%d", 4294967295u', "-1"),
    (r'"%ld %lu", (long)-5000000000, (ulong)18446744073709551615ul', "-5000000000 18446744073709551615"),
    (r'"%d", (long)5000000000', "5000000000"),
    (r'"%hhd %hhu %hd %hu", 300, -1, 70000, -1', "44 255 4464 65535"),
    (r'"%d %d %u %u", (char)-1, (short)-2, (uchar)200, (ushort)60000', "-1 -2 200 60000"),
    (r'"%x %X %#x %o %#o", 255, 255, 255, 8, 8', "ff FF 0xff 10 010"),
    (r'"[%5d][%-5d][%05d][%+d][% d]", 42, 42, 42, 42, 42', "[   42][42   ][00042][+42][ 42]"),
    (r'"[%*d][%-*d][%.*f]", 5, 42, 5, 42, 2, 1.0f', "[   42][42   ][1.00]"),
    (r'"[%5.3d]", 7', "[  007]"),
    (r'"%f %.2f %e %g", 1.5f, 2.345f, 1e10f, 0.0001f', "1.500000 2.35 1.000000e+10 0.0001"),
    (r'"%F %E %G", INFINITY, 1.0f, 1e-10f', "INF 1.000000E+00 1E-10"),
    (r'"%a %A", 1.0f, 0.5f', "0x1p+0 0X1P-1"),
    (r'"%f %f", -INFINITY, NAN', "-inf nan"),
    (r'"%08.3f|%-8.1f|%+.0f|%#.0f", 3.14159f, 2.5f, 2.0f, 2.0f', "0003.142|2.5     |+2|2."),
    (r'"%#g %g", 1.0f, 1.0f', "1.00000 1"),
    (r'"%f %f", 1.5h, 2.5bf', "1.500000 2.500000"),
    (r'"%c%c%5c", 65, (char)66, 67', "AB    C"),
    (r'"%s %5s %.2s", "text", "abc", "abc"', "text   abc ab"),
    (r'"%d %d", true, false', "1 0"),
    (r'"%v4f", float4(1, 2, 3, 4)', "1.000000,2.000000,3.000000,4.000000"),
    (r'"%.1v2f", float2(1, 2)', "1.0,2.0"),
    (r'"%v3hlf %v4hlu", float3(1, 2, 3), uint4(1, 2, 3, 4)', "1.000000,2.000000,3.000000 1,2,3,4"),
    (r'"%v2hf", half2(1, 2)', "1.000000,2.000000"),
    (r'"%v4hhd", char4(1, -2, 3, -4)', "1,-2,3,-4"),
    (r'"%v2hd %v2ld", short2(-1, 2), long2(-5000000000, 1)', "-1,2 -5000000000,1"),
    (r'"%v3d", packed_int3(int3(1, 2, 3))', "1,2,3"),
    (r'"%3v2d|", int2(1, 2)', "  1,  2|"),
    (r'"%v2d", bool2(true, false)', "1,0"),
    (r'"%{public}d", 5', "5"),
    (r'"%p", nullptr', "0x0"),
]


def test_formats(capsys: pytest.CaptureFixture[str]) -> None:
    assert outputs(capsys, "printf({})", FORMATS) == dict(FORMATS)


def test_pointers(capsys: pytest.CaptureFixture[str]) -> None:
    x = mk.zeros(4)
    out = printed(capsys, r'printf("%p", x); printf(" %p", x + 1);', x, parameters="device float* x, ")
    assert out == f"{x.gpu_address:#x} {x.gpu_address + 4:#x}"


def test_text_of_a_buffer(capsys: pytest.CaptureFixture[str]) -> None:
    text = np.frombuffer(b"buffer\0", np.int8)
    assert printed(capsys, r'printf("%s", x);', text, parameters="constant char* x, ") == "buffer"


MISFITS = [
    (r'"%d"', "%!d(missing)"),
    (r'"%d %d", 1', "1 %!d(missing)"),
    (r'"%d", 1, 2', "1%!(extra: int=2)"),
    (r'"%d\n", 1, 2, 0.5f', "1%!(extra: int=2, float=0.5)\n"),
    (r'"%d", 1.5f', "%!d(float=1.5)"),
    (r'"%f", 3', "%!f(int=3)"),
    (r'"%s", 3', "%!s(int=3)"),
    (r'"%p", 3', "%!p(int=3)"),
    (r'"%f", float2(1, 2)', "%!f(float2=(1.0, 2.0))"),
    (r'"%v4f", float2(1, 2)', "%!v4f(float2=(1.0, 2.0))"),
    (r'"%v2f", 1.0f', "%!v2f(float=1.0)"),
    (r'"%f", float2x2(1)', "%!f(float2x2=((1.0, 0.0), (0.0, 1.0)))"),
    (r'"%n", 3', "%!n(not supported)"),
    (r'"%y", 3', "%!y(unknown conversion: int=3)"),
    (r'"%"', "%!(incomplete)"),
    (r'"%-"', "%!-(incomplete)"),
    (r'"%5000d", 1', "%!5000d(width or precision above 1024: int=1)"),
    (r'"%.99999999999999999999f", 1.0f', "%!.99999999999999999999f(width or precision above 1024: float=1.0)"),
    (r'"%*d", 99999, 1', "%!*d(width or precision above 1024: int=1)"),
    (r'"%*d", 1.0f, 1', "%!*d(the width is no int)%!(extra: int=1)"),
    (r'"%.*f", float2(1), 1.0f', "%!.*f(the precision is no int)%!(extra: float=1.0)"),
]


@pytest.mark.filterwarnings("ignore::metalki.CompileWarning")
def test_formats_that_do_not_fit(capsys: pytest.CaptureFixture[str]) -> None:
    assert outputs(capsys, "printf({})", MISFITS) == dict(MISFITS)


@pytest.mark.parametrize(
    ("call", "warning"),
    [
        ('printf("%d %d", 1)', "the conversion '%d' has no argument"),
        ('printf("%d", 1, 2)', "the format has no conversion for this argument"),
        ('os_log_default.log("%d", 1.5f)', "the conversion '%d' does not take an argument of type float"),
        ('os_log_default.log_with_type(log_type_info, "%v2f", 1.5f)', "the conversion '%v2f' does not take"),
        ('printf("%v4f", float2(1))', "does not take an argument of type float2"),
        ('printf("%s", i)', "the conversion '%s' does not take an argument of type uint"),
        ('printf("%y", 1)', "there is no conversion '%y'"),
        ('printf("100%")', "the conversion '%' at the end of the format is incomplete"),
        ('printf("%*d", 1.0f, 1)', "takes an int"),
        ('KI.print("%f", 1)', "the conversion '%f' does not take an argument of type int"),
    ],
)
def test_the_compiler_warns_of_formats_that_do_not_fit(call: str, warning: str) -> None:
    with pytest.warns(mk.CompileWarning) as caught:
        kernel(f"{call};")
    assert [str(w.message) for w in caught if warning in str(w.message)], [str(w.message) for w in caught]


def test_no_warning_without_need(recwarn: pytest.WarningsRecorder) -> None:
    kernel(r"""
        printf("%d %5.2f %v3hlf %s %p %c%% %*d", i, 1.0h, float3(1), "s", "s", 65, 3, 4);
        KI.print("i = ", i, "\n");
        KI.print(1, 2);
        show(1); show(2.0f);
        os_log_default.log("%ld %hhd", 5l, 1);
    """, before='template <typename T> void show(T x) { printf("%d", int(x)); }')  # fmt: skip
    assert not [w for w in recwarn if issubclass(w.category, mk.CompileWarning)]


def test_literals_are_constant_char_pointers(capsys: pytest.CaptureFixture[str]) -> None:
    before = r"""
        struct Named { constant char* name; int value; };
        constant char* constant words[] = {"zero", "one"};
        constant char letters[] = "ab";
        void show(constant char* format, int x) { printf(format, x); }
        template <typename... A> void all(constant char* format, A... a) { printf(format, a...); }
        constant char* pick(bool first) { return first ? "first" : "second"; }
    """
    body = r"""
        constant char* text = "text " "joined";
        Named n = {"named", 3};
        show("<%d>", 1);
        all("<%d %d>", 1, 2);
        printf(" %s %s %s %s %c %d", text, n.name, words[i + 1], pick(i == 0), letters[1], int(sizeof("abc")));
    """
    out = printed(capsys, body, before=before)
    assert out == "<1><1 2> text joined named one first b 4"


@pytest.mark.filterwarnings("ignore::metalki.CompileWarning")
def test_text_for_a_number_is_not_read(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, r'printf("%d", "abc");').startswith("%!d(text=0x")


@pytest.mark.stops_kernels
def test_a_format_that_is_no_text_faults_like_any_bad_pointer() -> None:
    kernel("printf((constant char*)16ul);")(ndrange=1)
    with pytest.raises(mk.DeviceError, match="0x10"):
        mk.synchronize()
    mk.synchronize()


def test_long_messages_end_in_dots(capsys: pytest.CaptureFixture[str]) -> None:
    out = printed(capsys, 'for (int n = 0; n < 1; ++n) printf("%1024d%1024d%1024d%1024d%1024d%1024d%1024d%1024d%1024d", '
                          "1, 2, 3, 4, 5, 6, 7, 8, 9);")  # fmt: skip
    assert len(out) == 8192
    assert out.endswith("...")


def test_bytes_that_are_no_utf8_are_replaced(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, r'printf("%c|%s", 255, "ü");') == "\ufffd|ü"


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(formats=st.lists(st.text("%%%%%dfsvxhl0123456789.*-+# nc\n\u00fc", max_size=30), min_size=1, max_size=20))
def test_any_format_gives_some_text(capsys: pytest.CaptureFixture[str], formats: list[str]) -> None:
    show = kernel('printf(f, i, 0.5f, float2(1, 2), "text", 1, 2); printf("\\x01");', parameters="constant char* f, ")
    for text in formats:
        show(np.frombuffer(text.encode() + b"\0", np.int8), ndrange=1)
    mk.synchronize()
    assert capsys.readouterr().out.count("\x01") == len(formats)


# KI.print


VALUES = [
    (r'"Hello from thread ", i, "!\n"', "Hello from thread 0!\n"),
    (r'"i = %d\n", i', "i = 0\n"),
    (r'i, " ", -1, " ", 5000000000l', "0 -1 5000000000"),
    ("1.0f", "1.0"),
    ("0.1f", "0.1"),
    ("0.1h", "0.1"),
    ("0.1bf", "0.1"),
    ("1e20f", "1e+20"),
    ('INFINITY, " ", -INFINITY, " ", NAN', "inf -inf nan"),
    ('65504.0h, " ", half(1.0h / 3.0h)', "65500.0 0.3333"),
    ("true", "true"),
    ("float2(1, 0.5)", "(1.0, 0.5)"),
    ("uchar4(1, 2, 3, 4)", "(1, 2, 3, 4)"),
    ("bool3(true, false, true)", "(true, false, true)"),
    ("float3x2(1)", "((1.0, 0.0), (0.0, 1.0), (0.0, 0.0))"),
    ("float2x3(1)", "((1.0, 0.0, 0.0), (0.0, 1.0, 0.0))"),
    ("nullptr", "0x0"),
    ("KI.get_global_size()", "(1, 1, 1)"),
]


def test_ki_print(capsys: pytest.CaptureFixture[str]) -> None:
    assert outputs(capsys, "KI.print({})", VALUES) == dict(VALUES)


def test_values_that_cannot_be_printed_do_not_compile() -> None:
    with pytest.raises(mk.CompileError, match="a kernel prints numbers"):
        kernel("S s; KI.print(s);", before="struct S { int a; };")


def test_enumerations_and_swizzles(capsys: pytest.CaptureFixture[str]) -> None:
    body = "float4 v(1, 2, 3, 4); KI.print(A, B::C, v.xy, v.w);"
    assert printed(capsys, body, before="enum { A = 3 }; enum class B : ushort { C = 4 };") == "34(1.0, 2.0)4.0"


# Threads and order


def test_each_thread_prints_in_order(capsys: pytest.CaptureFixture[str]) -> None:
    n = 5000
    out = printed(capsys, r'for (int s = 0; s < 3; ++s) printf("%u %d\n", i, s);', n=n)
    seen: dict[int, list[int]] = {}
    for line in out.splitlines():
        thread, step = map(int, line.split())
        seen.setdefault(thread, []).append(step)
    assert seen == {k: [0, 1, 2] for k in range(n)}


def test_threads_that_wait_for_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    body = r"""
        KI.print("a", i, "\n");
        KI.barrier();
        KI.print("b", simd_sum(1), "\n");
    """
    kernel(body)(ndrange=64, workgroupsize=64)
    mk.synchronize()
    lines = capsys.readouterr().out.splitlines()
    assert sorted(lines[:64]) == sorted(f"a{k}" for k in range(64))
    assert lines[64:] == ["b32"] * 64


def test_printing_from_functions_and_templates(capsys: pytest.CaptureFixture[str]) -> None:
    before = r"""
        template <typename T> void show(T value) { printf("<%d>", int(value)); }
        void twice(int x) { show(x); show(x + 0.5f); }
    """
    assert printed(capsys, "twice(3);", before=before) == "<3><3>"


def test_launches_print_in_order(capsys: pytest.CaptureFixture[str]) -> None:
    show = kernel("KI.print(x);", parameters="constant int& x, ")
    quiet, x = kernel("x[i] += 1;", parameters="device int* x, "), mk.zeros(4, np.int32)
    for k in range(200):
        show(k % 10, ndrange=1)
        quiet(x, ndrange=4)
    mk.synchronize()
    assert capsys.readouterr().out == "0123456789" * 20
    assert x.numpy().tolist() == [200] * 4


# os_log


def test_levels(logs: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]) -> None:
    kernel("""
        os_log_default.log("plain");
        os_log_default.log_debug("debug %d", 1);
        os_log_default.log_info("info %f", 0.5f);
        os_log_default.log_error("error %v2d", int2(1, 2));
        os_log_default.log_fault("fault\\n");
        os_log_default.log_with_type(log_type_error, "type %d", 3);
        custom.log("custom %d%%", 7);
    """, before='constant metal::os_log custom("com.x", "cat");')(ndrange=1)  # fmt: skip
    mk.synchronize()
    assert [(r.name, r.levelno, r.getMessage()) for r in logs.records] == [
        ("metalki.kernel", logging.INFO, "plain"),
        ("metalki.kernel", logging.DEBUG, "debug 1"),
        ("metalki.kernel", logging.INFO, "info 0.500000"),
        ("metalki.kernel", logging.ERROR, "error 1,2"),
        ("metalki.kernel", logging.CRITICAL, "fault"),
        ("metalki.kernel", logging.ERROR, "type 3"),
        ("metalki.kernel", logging.INFO, "custom 7%"),
    ]
    extras = [(getattr(r, "subsystem"), getattr(r, "category")) for r in logs.records]  # noqa: B009
    assert extras == [("", "")] * 6 + [("com.x", "cat")]
    assert capsys.readouterr().out == ""


def test_percent_signs_of_a_message_are_no_format(logs: pytest.LogCaptureFixture) -> None:
    kernel('os_log_default.log("%s", "100% %d");')(ndrange=1)
    mk.synchronize()
    assert logs.messages == ["100% %d"]


def test_a_logger_of_a_library(logs: pytest.LogCaptureFixture) -> None:
    before = """
        namespace lib { using os_log = metal::os_log; }
        constant lib::os_log logger("lib", "kernels");
    """
    kernel('logger.log_debug("index %u", i);', before=before)(ndrange=2)
    mk.synchronize()
    assert logs.messages == ["index 0", "index 1"]


# When messages come


def test_the_wait_for_an_array_delivers(capsys: pytest.CaptureFixture[str]) -> None:
    x = mk.zeros(1)
    kernel('KI.print("done\\n"); x[0] = 1;', parameters="device float* x, ")(x, ndrange=1)
    assert x.numpy()[0] == 1
    assert capsys.readouterr().out == "done\n"


def test_numpy_outputs_deliver(capsys: pytest.CaptureFixture[str]) -> None:
    x = np.zeros(1, np.float32)
    kernel('KI.print("done\\n"); x[0] = 1;', parameters="device float* x, ")(x, ndrange=1)
    mk.synchronize()
    assert capsys.readouterr().out == "done\n"
    assert x[0] == 1


def test_a_queue_delivers_its_own_messages(capsys: pytest.CaptureFixture[str]) -> None:
    a, b = mk.Queue(label="a"), mk.Queue(label="b")
    show = kernel("KI.print(x);", parameters="constant int& x, ")
    show(1, ndrange=1, queue=a)
    show(2, ndrange=1, queue=b)
    mk.synchronize(a)
    assert capsys.readouterr().out == "1"
    mk.synchronize(b)
    assert capsys.readouterr().out == "2"
    show(3, ndrange=1, queue=a)
    show(4, ndrange=1, queue=b)
    mk.device_synchronize()
    assert sorted(capsys.readouterr().out) == ["3", "4"]


def test_the_messages_of_a_queue_that_is_gone(capsys: pytest.CaptureFixture[str]) -> None:
    show, queue = kernel('KI.print("late");'), mk.Queue()
    show(ndrange=1, queue=queue)
    queue.flush()
    del queue
    mk.device_synchronize()
    for _ in range(200):
        if text := capsys.readouterr().out:
            break
        mk.device_synchronize()
        threading.Event().wait(0.01)
    assert text == "late"


def test_queues_ordered_by_events(capsys: pytest.CaptureFixture[str]) -> None:
    a, b = mk.Queue(), mk.Queue()
    show = kernel("KI.print(x);", parameters="constant int& x, ")
    show(1, ndrange=1, queue=a)
    event = KI.record_event(mk.MetalBackend(), a)
    KI.wait_event(mk.MetalBackend(), event, b)
    show(2, ndrange=1, queue=b)
    mk.device_synchronize()
    assert capsys.readouterr().out == "12"


def test_asyncio(capsys: pytest.CaptureFixture[str]) -> None:
    show = kernel("KI.print(x);", parameters="constant int& x, ")

    async def work(x: int) -> None:
        show(x, ndrange=1)
        await mk.synchronize_async()

    async def main() -> None:
        await asyncio.gather(*(work(x) for x in range(5)))

    asyncio.run(main())
    assert sorted(capsys.readouterr().out) == list("01234")


def test_spawned_tasks(capsys: pytest.CaptureFixture[str]) -> None:
    show = kernel("KI.print(x);", parameters="constant int& x, ")
    task = KI.spawn(lambda: show(7, ndrange=1))
    task.wait()
    mk.device_synchronize()
    assert capsys.readouterr().out == "7"


def test_threads_with_queues_of_their_own(capsys: pytest.CaptureFixture[str]) -> None:
    show = kernel('KI.print(x, "\\n");', parameters="constant int& x, ")

    def work(first: int) -> None:
        for k in range(20):
            show(first + k, ndrange=1)
            mk.synchronize()

    threads = [threading.Thread(target=work, args=(100 * k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    values = [int(line) for line in capsys.readouterr().out.split()]
    assert sorted(values) == sorted(100 * k + n for k in range(4) for n in range(20))
    for k in range(4):
        assert [v for v in values if v // 100 == k] == [100 * k + n for n in range(20)]


def test_redirected_output(capsys: pytest.CaptureFixture[str]) -> None:
    target = io.StringIO()
    with contextlib.redirect_stdout(target):
        kernel('KI.print("here");')(ndrange=1)
        mk.synchronize()
    assert target.getvalue() == "here"
    assert capsys.readouterr().out == ""


def test_without_a_standard_output(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", None)
        kernel('KI.print("nowhere");')(ndrange=1)
        mk.synchronize()


# Faults, limits, exceptions


@pytest.mark.stops_kernels
def test_messages_before_a_fault(capsys: pytest.CaptureFixture[str]) -> None:
    broken = kernel('KI.print("before\\n"); *(device int*)16ul = 1; KI.print("after\\n");')
    broken(ndrange=1)
    with pytest.raises(mk.DeviceError):
        mk.synchronize()
    assert capsys.readouterr().out == "before\n"


def test_more_than_the_log_holds(capsys: pytest.CaptureFixture[str], logs: pytest.LogCaptureFixture) -> None:
    n = 100_000
    out = printed(capsys, 'printf("%63u\\n", i); ', n=n)
    lines = out.splitlines()
    assert all(len(line) == 63 for line in lines[:-1])
    kept, last = len(lines) - 1, lines[-1]
    assert 0 < kept * 64 < 2**20
    assert last == f"metalki: {n - kept} messages were dropped: the log of a command buffer holds {2**20} bytes"
    assert printed(capsys, 'printf("next");') == "next"
    kernel('os_log_default.log_error("%63u", i);')(ndrange=n)
    mk.synchronize()
    assert f"{n - len(logs.messages) + 1} messages were dropped" in logs.messages[-1]


class Broken(io.StringIO):
    """Refuses one text."""

    def write(self, text: str) -> int:
        if text == "1":
            raise OSError("no space")
        return super().write(text)


def test_what_the_output_raises_is_raised_and_nothing_else_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    show, target = kernel("KI.print(x);", parameters="constant int& x, "), Broken()
    monkeypatch.setattr(sys, "stdout", target)
    for k in range(4):
        show(k, ndrange=1)
    with pytest.raises(OSError, match="no space"):
        mk.synchronize()
    mk.synchronize()
    monkeypatch.undo()
    assert target.getvalue() == "023"


def test_an_interrupt_leaves_the_rest_for_later(monkeypatch: pytest.MonkeyPatch) -> None:
    class Interrupting(io.StringIO):
        def write(self, text: str) -> int:
            if text == "1":
                raise KeyboardInterrupt
            return super().write(text)

    show, target = kernel("KI.print(x);", parameters="constant int& x, "), Interrupting()
    monkeypatch.setattr(sys, "stdout", target)
    for k in range(4):
        show(k, ndrange=1)
    with pytest.raises(KeyboardInterrupt):
        mk.synchronize()
    before = target.getvalue()
    mk.synchronize()
    monkeypatch.undo()
    assert before == "0"
    assert target.getvalue() == "023"


@pytest.mark.stops_kernels
def test_an_error_of_the_device_counts_more(monkeypatch: pytest.MonkeyPatch) -> None:
    unraisable: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", unraisable.append)
    monkeypatch.setattr(sys, "stdout", Broken())
    kernel("KI.print(1); *(device int*)16ul = 1;")(ndrange=1)
    with pytest.raises(mk.DeviceError):
        mk.synchronize()
    monkeypatch.undo()
    assert [type(u.exc_value) for u in unraisable] == [OSError]


def test_a_handler_may_use_the_device(logs: pytest.LogCaptureFixture) -> None:
    x = mk.zeros(1)
    add = kernel("x[0] += 1;", parameters="device float* x, ")

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            add(x, ndrange=1)
            self.seen = x.numpy()[0]

    handler = Handler()
    logger = logging.getLogger("metalki.kernel")
    logger.addHandler(handler)
    try:
        kernel('os_log_default.log("a"); os_log_default.log("b");')(ndrange=1)
        mk.synchronize()
    finally:
        logger.removeHandler(handler)
    assert handler.seen == 2
    assert logs.messages == ["a", "b"]


def run_script(body: str, **environment: str) -> subprocess.CompletedProcess[str]:
    script = f"import metalki as mk\nHEAD = {HEAD!r}\n" + textwrap.dedent(body)
    return subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=120, env={**os.environ, **environment}
    )


def test_the_end_of_the_interpreter_delivers() -> None:
    done = run_script("""
        mk.Kernel(HEAD + 'kernel void k(KI_ARGS) { KI.print("out\\\\n"); os_log_default.log_error("err"); }')(ndrange=1)
    """)
    assert (done.returncode, done.stdout) == (0, "out\n")
    assert done.stderr.strip() == "err"  # logging's last resort


def test_kernels_from_the_disk_cache_print(tmp_path: Any) -> None:
    script = """
        mk.Kernel(HEAD + 'kernel void k(KI_ARGS) { KI.print("cached ", %d, "\\\\n"); }' % 5)(ndrange=1)
        mk.synchronize()
    """
    for _ in range(2):
        done = run_script(script, METALKI_CACHE_DIR=str(tmp_path), XDG_CACHE_HOME=str(tmp_path))
        assert (done.stdout, done.stderr) == ("cached 5\n", "")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_does_not_repeat_what_the_parent_prints() -> None:
    done = run_script("""
        import os, sys
        mk.Kernel(HEAD + 'kernel void k(KI_ARGS) { KI.print("once\\\\n"); }')(ndrange=1)
        if os.fork() == 0:
            sys.exit(0)
        os.wait()
    """)
    assert (done.returncode, done.stdout) == (0, "once\n"), done.stderr

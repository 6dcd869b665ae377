"""Kernels that never end, memory that runs out, kernels that trap: an error, and the device goes on."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
import threading
from typing import Any

import numpy as np
import pytest

import metalki as mk
from metalki import kernel_interface as KI

B = mk.MetalBackend()
HEAD = "#include <metal_stdlib>\nusing namespace metal;\n"
# Ends once the host says so.
SPIN = HEAD + "kernel void spin(device atomic_uint* go) { while (!atomic_load_explicit(go, memory_order_relaxed)) {} }"
# Endless inside one threadgroup, at a barrier, and among SIMD-group functions.
ENDLESS = {
    "loop": SPIN.replace("spin", "endless"),
    "barrier": HEAD
    + "kernel void endless(device uint* a) { for (;;) { a[0] = 1; threadgroup_barrier(mem_flags::mem_device); } }",
    "simd": HEAD
    + """kernel void endless(device float* a, uint i [[thread_position_in_grid]]) {
        float x = i; do x = simd_sum(x) / 64 + 1; while (x > 0); a[0] = x; }""",
}


@pytest.fixture(scope="module")
def spin() -> mk.Kernel:
    return mk.Kernel(SPIN)


def check_usable(queue: Any = None) -> None:
    a = mk.zeros(100, np.uint32)
    mk.Kernel("kernel void quick(device uint* a, uint i [[thread_position_in_grid]]) { a[i] = i; }")(
        a, ndrange=100, queue=queue
    )
    mk.synchronize(queue)
    assert a.numpy()[99] == 99


@pytest.mark.stops_kernels
@pytest.mark.parametrize("name", ENDLESS)
def test_a_time_limit_stops_a_kernel_that_never_ends(name: str) -> None:
    queue = mk.Queue(label="limited", time_limit=0.05)
    assert queue.time_limit == 0.05
    mk.Kernel(ENDLESS[name])(mk.zeros(64, "float32" if name == "simd" else "uint32"), ndrange=64, queue=queue)
    with pytest.raises(mk.DeviceError, match=r"endless.*time limit of 0.05 s"):
        queue.synchronize()
    check_usable(queue)


@pytest.mark.stops_kernels
def test_the_limit_is_that_of_a_launch_and_off_by_default(spin: mk.Kernel) -> None:
    assert mk.Queue().time_limit is None
    slow = mk.Kernel(
        "kernel void slow(device volatile uint* a, constant uint& n) { for (uint i = 0; i < n; ++i) a[0] = i; }"
    )
    queue = mk.Queue(time_limit=20)
    a = mk.zeros(1, np.uint32)
    for _ in range(10):
        slow(a, 1_000_000, ndrange=1, queue=queue)
    queue.synchronize()
    queue.time_limit = None
    assert queue.time_limit is None
    queue.time_limit = 0.02
    spin(mk.zeros(1, np.uint32), ndrange=1, queue=queue)
    with pytest.raises(mk.DeviceError, match="time limit"):
        queue.synchronize()
    mk.global_queue().time_limit = 0.02
    try:
        spin(mk.zeros(1, np.uint32), ndrange=1)
        with pytest.raises(mk.DeviceError, match="time limit"):
            mk.synchronize()
    finally:
        mk.global_queue().time_limit = None


@pytest.mark.parametrize("bad", [0, -1, float("nan"), "1", True, object(), [1], -float("inf")])
def test_bad_time_limits(bad: Any) -> None:
    with pytest.raises(mk.ArgumentError, match="time_limit"):
        mk.Queue(time_limit=bad)


@pytest.mark.parametrize("good", [np.float32(2.5), 3, 1e300, float("inf"), 1e-300])
def test_unusual_time_limits(good: Any) -> None:
    assert mk.Queue(time_limit=good).time_limit is not None


@pytest.mark.parametrize("bad", ["HIGH", "", None, 1, b"high"])
def test_bad_priorities(bad: Any) -> None:
    with pytest.raises(mk.ArgumentError, match="priority"):
        mk.Queue(priority=bad)


def test_priority_is_that_of_the_callers_queue() -> None:
    found = []
    here = mk.global_queue().priority

    def work() -> None:
        found.append(mk.global_queue().priority)
        KI.priority(B, "high")
        found.append(mk.global_queue().priority)

    KI.spawn(work).result()
    assert found == ["normal", "high"]
    assert mk.global_queue().priority == here
    assert mk.Queue(priority="low").priority == "low"


@pytest.mark.stops_kernels
def test_cancel_stops_and_drops(spin: mk.Kernel) -> None:
    queue = mk.Queue()
    a = mk.zeros(4, np.uint32)
    spin(mk.zeros(1, np.uint32), ndrange=1, queue=queue)
    mk.Kernel("kernel void one(device uint* a) { a[0] = 1; }")(a, ndrange=1, queue=queue)
    queue.cancel()
    with pytest.raises(mk.DeviceError, match="spin"):
        queue.synchronize()
    assert a.numpy()[0] == 0
    check_usable(queue)


@pytest.mark.stops_kernels
def test_kernels_that_trap() -> None:
    for body in (
        "device uint* p = (device uint*)a[0]; *p = 1;",
        "a[a[1]] = 1;",
        "threadgroup_barrier(mem_flags::mem_device); a[1] = *(device uchar*)a[0];",
    ):
        kernel = mk.Kernel(HEAD + "kernel void trap(device ulong* a) {" + body + "}")
        kernel(mk.array(np.array([8, 2**60, 123], np.uint64)), ndrange=1)
        with pytest.raises(mk.DeviceError, match=r"trap.*invalid memory access"):
            mk.synchronize()
        check_usable()
    divide = mk.Kernel("kernel void divide(device int* a) { a[0] = a[1] / a[2]; a[3] = a[1] % a[2]; }")
    divide(mk.array(np.array([1, 2, 0, 3], np.int32)), ndrange=1)  # whatever it gives, nothing ends
    mk.synchronize()
    check_usable()


def test_memory_that_runs_out() -> None:
    limit = mk.device().max_buffer_length
    with pytest.raises(mk.OutOfMemoryError, match=str(limit + 1)):
        mk.empty(limit + 1, np.uint8)
    for size in (2**62, 2**63 - 1, 2**64):
        with pytest.raises((mk.OutOfMemoryError, mk.ArgumentError)):
            mk.empty(size, np.uint8)
    check_usable()


def python(text: str, timeout: float = 90) -> subprocess.CompletedProcess[str]:
    start = f"""
import os, sys, threading, time
import numpy as np
import metalki as mk
from metalki import kernel_interface as KI
spin = mk.Kernel({SPIN!r})
quick = mk.Kernel("kernel void quick(device uint* a, uint i [[thread_position_in_grid]]) {{ a[i] = i; }}")
go, a = mk.zeros(1, np.uint32), mk.zeros(1000, np.uint32)
"""
    return subprocess.run(
        [sys.executable, "-c", start + textwrap.dedent(text)],
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


def test_memory_that_the_system_does_not_have() -> None:
    result = python("""
        import resource
        size = 64 << 20
        in_use = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (in_use + 10 * size, resource.RLIM_INFINITY))
        arrays = []
        try:
            for _ in range(100):
                arrays.append(mk.ones(size // 4))
        except mk.OutOfMemoryError as error:
            assert str(size) in str(error), error
            print("refused")
        arrays.clear()
        quick(a, ndrange=1000)
        mk.synchronize()
        assert mk.ones(size // 4).numpy()[-1] == 1
        print(a.numpy()[999])
    """)
    assert result.stdout.split() == ["refused", "999"], result.stderr


def test_arrays_until_memory_is_exhausted() -> None:
    """Nothing is touched, so the system itself would promise without end and take back by ending the process.

    With a GPU it is the device's memory: what both reach is taken from the host's pages at once."""
    result = python("""
        arrays, size = [], 256 << 20
        storage = "private" if mk.device().kind == "cuda" else "shared"
        host = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        physical = host if storage == "shared" else mk.device().recommended_working_set_size // 9 * 10 + 10
        try:
            while len(arrays) * size <= 2 * physical:
                arrays.append(mk.empty(size, np.uint8, storage))
        except mk.OutOfMemoryError as error:
            assert str(size) in str(error), error
            print("refused", 0 < len(arrays) * size <= physical)
        if storage == "shared":  # as textures have
            try:
                mk.Texture((16384, 16384), "rgba32float")
            except mk.OutOfMemoryError:
                print("texture refused")
        quick(a, ndrange=1000)
        mk.synchronize()
        print(a.numpy()[999])
        for freed in arrays[:2]:
            KI.unsafe_free(freed)
        print(mk.zeros(size, np.uint8, storage).numpy()[-1])
    """)
    lines = [line for line in result.stdout.splitlines() if line != "texture refused"]
    assert lines == ["refused True", "999", "0"], result.stderr
    assert ("texture refused" in result.stdout) == (mk.device().kind != "cuda"), result.stdout


INTERRUPTED = {
    "synchronize": "mk.synchronize()",
    "device_synchronize": "mk.device_synchronize()",
    "numpy": "go.numpy()",
    "task": "queue = mk.Queue(); spin(go, ndrange=1, queue=queue); queue.synchronize()",
    "written back": "spin(np.zeros(1, np.uint32), ndrange=1)",
    # The queue is full at some time, and launching waits.
    "launch": "spin(go, ndrange=1)\nfor _ in range(3000000): quick(a, ndrange=1)",
    # Known to be short, and so run by the waiting thread itself.
    "run by the waiting thread": """
go.numpy()[0] = 1
for _ in range(5):
    spin(go, ndrange=1)
    mk.synchronize()
go.numpy()[0] = 0
spin(go, ndrange=1)
mk.synchronize()""",
}


@pytest.mark.stops_kernels
def test_ctrl_c_right_away_stops_a_kernel_that_has_always_been_short() -> None:
    text = f"""
import os, signal, sys, threading
signal.signal(signal.SIGINT, signal.default_int_handler)
import numpy as np
import metalki as mk
spin = mk.Kernel({SPIN!r})
go = mk.ones(1, np.uint32)
for _ in range(20):
    spin(go, ndrange=1)  # ends at once: the waiting thread runs it by itself from now on
    mk.synchronize()
for _ in range(5):
    go.numpy()[0] = 0
    spin(go, ndrange=1)
    threading.Timer(0.02, os.kill, (os.getpid(), signal.SIGINT)).start()
    try:
        mk.synchronize()
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    go.numpy()[0] = 1
    spin(go, ndrange=1)
    mk.synchronize()
"""
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.returncode) == ("interrupted\n" * 5, 0), done.stderr


@pytest.mark.stops_kernels
@pytest.mark.parametrize("name", INTERRUPTED)
def test_ctrl_c_stops_a_kernel_that_never_ends(name: str) -> None:
    launch = "spin(go, ndrange=1)\n" if name in ("synchronize", "device_synchronize", "numpy") else ""
    text = f"""
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where the tests run in the background
import numpy as np
import metalki as mk
spin = mk.Kernel({SPIN!r})
quick = mk.Kernel("kernel void quick(device uint* a, uint i [[thread_position_in_grid]]) {{ a[i] = i; }}")
go, a = mk.zeros(1, np.uint32), mk.zeros(1000, np.uint32)
{"" if "waiting" in name else launch}
print("started", flush=True)
try:
    {textwrap.indent(INTERRUPTED[name], "    ").strip()}
except KeyboardInterrupt:
    print("interrupted")
quick(a, ndrange=1000)
mk.synchronize()
print(a.numpy()[999])
"""
    process = subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "started\n"
    threading.Event().wait(0.5)
    process.send_signal(signal.SIGINT)
    try:
        output, errors = process.communicate(timeout=60)
    finally:
        process.kill()
    assert output.split() == ["interrupted", "999"], errors


@pytest.mark.parametrize(
    "text",
    [
        "spin(go, ndrange=1)",
        "spin(go, ndrange=1); mk.global_queue().flush()",
        "q = mk.Queue(time_limit=100); spin(go, ndrange=1, queue=q); q.flush()",
        "queues = [mk.Queue() for _ in range(20)]; [(spin(go, ndrange=64, queue=q), q.flush()) for q in queues]",
    ],
)
def test_exit_with_endless_work_in_flight(text: str) -> None:
    result = python(text + "\nprint('leaving', flush=True)")
    assert (result.returncode, result.stdout, result.stderr) == (0, "leaving\n", "")


@pytest.mark.parametrize("attempt", range(5))
def test_a_queue_goes_on_beside_an_endless_kernel_on_another(attempt: int) -> None:
    """In a new process, whose one idle thread may not have woken for the first queue when the second has work."""
    result = python("""
        quick(a, ndrange=1000)
        mk.global_queue().flush()
        mk.synchronize()
        stuck = mk.Queue()
        spin(go, ndrange=1, queue=stuck)
        stuck.flush()
        quick(a, ndrange=1000)
        mk.global_queue().flush()
        mk.synchronize()
        print("went on")
    """)
    assert result.stdout == "went on\n", result.stderr


def test_thousands_of_live_queues_at_once() -> None:
    result = python("""
        queues = [mk.Queue(label=str(i)) for i in range(4000)]
        arrays = [mk.zeros(8, np.uint32) for _ in queues]
        for _ in range(2):
            for q, b in zip(queues, arrays):
                quick(b, ndrange=8, queue=q)
        mk.device_synchronize()
        print(all(b.numpy()[7] == 7 for b in arrays), len(os.listdir("/proc/self/task")) < 64)
    """)
    assert result.stdout == "True True\n", result.stderr


def test_arrays_freed_while_kernels_use_them() -> None:
    result = python("""
        slow = mk.Kernel("kernel void slow(device uint* a, constant uint& n, uint i [[thread_position_in_grid]]) {"
                         " for (uint k = 0; k < n; ++k) a[i] += k; }")
        for round in range(200):
            b = mk.zeros(100000, np.uint32)
            slow(b, 50, ndrange=100000)
            if round % 3 == 0:
                mk.global_queue().flush()
            if round % 2:
                KI.unsafe_free(b)
            del b
        mk.synchronize()
        b = mk.zeros(10, np.uint32)
        KI.unsafe_free(b)
        try:
            slow(b, 1, ndrange=10)
        except mk.ArgumentError as error:
            print("freed" in str(error))
    """)
    assert result.stdout == "True\n", result.stderr


@pytest.mark.parametrize(
    "call",
    [
        "quick(a, ndrange=10)",
        "mk.synchronize()",
        "mk.device_synchronize()",
        "a.numpy()",
        "np.asarray(a)",
        "mk.Queue().synchronize()",
        "KI.record_event(B)",
        "KI.copyto(B, a, np.zeros(1000, np.uint32))",
        "mk.on_complete(print)",
        "KI.spawn(lambda: quick(a, ndrange=10)).result()",
        "quick(np.zeros(10, np.uint32), ndrange=10)",
        "mk.global_queue().cancel()",
        "mk.Kernel('kernel void other(device uint* a) { a[0] = 2; }')(a, ndrange=1)",
    ],
)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_gets_an_error_from_every_call(call: str) -> None:
    result = python(f"""
        B = mk.MetalBackend()
        quick(a, ndrange=1000)
        mk.synchronize()
        spin(go, ndrange=1, queue=mk.Queue())
        quick(a, ndrange=1000)
        child = os.fork()
        if child == 0:
            try:
                {call}
                status = 1
            except mk.DeviceError as error:
                status = 0 if "fork" in str(error) else 2
            except BaseException:
                status = 3
            os._exit(status)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
        go.__class__  # the parent goes on
        mk.synchronize()
        os._exit(0)
    """)
    assert result.stdout == "0\n", result.stderr


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_children_forked_while_other_threads_compile_do_not_hang() -> None:
    text = """
        import os, signal, sys, threading, time
        import numpy as np
        import metalki as mk
        stop, number, lock = threading.Event(), 0, threading.Lock()
        def source(i):
            return f"kernel void k(device int* a) {{ a[0] = {i} + {os.getpid()}; }}"
        def compile_on():
            global number
            while not stop.is_set():
                with lock:
                    number += 1
                    mine = number
                mk.Kernel(source(mine))
        threads = [threading.Thread(target=compile_on) for _ in range(2)]
        for t in threads: t.start()
        time.sleep(0.3)
        found = set()
        for _ in range(20):
            first = source(number)
            child = os.fork()
            if child == 0:
                signal.alarm(30)
                try:
                    mk.Kernel(first)  # may be one that was being compiled
                    mk.Kernel("kernel void other(device int* a) { a[0] = 1; }")
                    os._exit(0)
                except mk.DeviceError as error:
                    os._exit(1 if "fork" in str(error) else 2)
                except BaseException:
                    os._exit(3)
            found.add(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        stop.set()
        for t in threads: t.join()
        print(found <= {0, 1}, found)
    """
    command = [sys.executable, "-W", "ignore", "-c", textwrap.dedent(text)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=500, check=False)
    assert result.stdout.startswith("True"), result.stdout + result.stderr


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_multiprocessing_with_fork_and_an_ordinary_exit() -> None:
    result = python("""
        import multiprocessing
        def work(n):
            try:
                quick(mk.zeros(10, np.uint32), ndrange=10)
                return "ran"
            except mk.DeviceError:
                return "told"
        quick(a, ndrange=1000)
        mk.synchronize()
        with multiprocessing.get_context("fork").Pool(2) as pool:
            print(set(pool.map(work, range(4))))
    """)
    assert result.stdout == "{'told'}\n", result.stderr

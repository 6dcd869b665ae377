"""Fork, exit, signals and threads: the interpreter never hangs or crashes."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
import threading

import pytest

START = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where the tests run in the background
import os, sys, threading, time
import numpy as np
import metalki as mk
from metalki import kernel_interface as KI
SLOW = "kernel void slow(device volatile uint* a, constant uint& n) { for (uint i = 0; i < n; ++i) a[0] = i; }"
QUICK = "kernel void quick(device uint* a, uint i [[thread_position_in_grid]]) { a[i] = i; }"
slow, quick = mk.Kernel(SLOW), mk.Kernel(QUICK)
a = mk.zeros(1000, np.uint32)
"""


def python(text: str, timeout: float = 60) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", START + textwrap.dedent(text)],
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


@pytest.mark.skipif(not hasattr(__import__("os"), "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_is_told_and_does_not_hang() -> None:
    result = python("""
        quick(a, ndrange=1000)
        mk.synchronize()
        slow(a, 50000000, ndrange=1)
        child = os.fork()
        if child == 0:
            try:
                b = mk.zeros(1000, np.uint32)
                quick(b, ndrange=1000)
                mk.synchronize()
                status = 0 if b.numpy()[999] == 999 else 2
            except mk.MetalkiError as error:
                status = 0 if "fork" in str(error) else 3
            os._exit(status)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        mk.synchronize()
        print(a.numpy()[0])
    """)
    assert result.stdout.split() == ["0", "49999999"], result.stderr


def test_a_child_forked_before_first_use_works() -> None:
    text = """
        import os, sys
        import metalki as mk
        child = os.fork()
        mk.Kernel("kernel void k(device int* a) { a[0] = 3; }")(a := mk.zeros(1, "int32"), ndrange=1)
        assert a.numpy()[0] == 3
        if child == 0:
            os._exit(0)
        sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    """
    result = subprocess.run([sys.executable, "-c", textwrap.dedent(text)], capture_output=True, timeout=60, check=False)
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize(
    "text",
    [
        "slow(a, 300000000, ndrange=1)",
        "slow(a, 300000000, ndrange=1); mk.global_queue().flush()",
        "slow(a, 300000000, ndrange=1); mk.on_complete(print); mk.global_queue().flush()",
        "slow(a, 300000000, ndrange=1); KI.copyto(mk.MetalBackend(), np.zeros(1000, np.uint32), a)",
        "KI.spawn(lambda: slow(a, 300000000, ndrange=1))",
        "threading.Thread(target=lambda: (slow(a, 300000000, ndrange=1), mk.synchronize()), daemon=True).start()",
        "queues = [mk.Queue() for _ in range(100)]; [quick(a, ndrange=1000, queue=q) for q in queues]",
    ],
)
def test_exit_with_work_in_flight(text: str) -> None:
    result = python(text + "\nprint('leaving', flush=True)")
    assert (result.returncode, result.stdout, result.stderr) == (0, "leaving\n", "")


def test_exit_while_threads_compile() -> None:
    result = python("""
        def compile_on(thread):
            for number in range(10**9):
                text = "kernel void k(device float* a, uint i [[thread_position_in_grid]]) { a[i] = a[i] * %d.%d; }"
                mk.Kernel(text % (thread, number)).disassemble("asm")
        for thread in range(3):
            threading.Thread(target=compile_on, args=(thread,), daemon=True).start()
        threading.Event().wait(0.3)
        print("leaving", flush=True)
    """)
    assert (result.returncode, result.stdout, result.stderr) == (0, "leaving\n", "")


def test_ctrl_c_during_a_wait_of_the_whole_device() -> None:
    process = subprocess.Popen(
        [
            sys.executable,
            "-c",
            START
            + textwrap.dedent("""
                slow(a, 4000000000, ndrange=1)
                try:
                    print("started", flush=True)
                    mk.device_synchronize()
                except KeyboardInterrupt:
                    quick(a, ndrange=1000)
                    mk.synchronize()
                    print(a.numpy()[999])
            """),
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "started\n"
    threading.Event().wait(0.2)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    assert output == "999\n"


def test_a_thread_that_waits_leaves_the_gil_to_others() -> None:
    result = python("""
        slow(a, 400000000, ndrange=1)
        steps = 0
        done = threading.Event()
        def count():
            global steps
            while not done.is_set():
                steps += 1
                time.sleep(0.001)
        thread = threading.Thread(target=count)
        thread.start()
        mk.synchronize()
        done.set()
        thread.join()
        print(steps > 1)
    """)
    assert result.stdout == "True\n", result.stderr


def test_threads_that_end_with_work_in_flight() -> None:
    result = python("""
        arrays = [mk.zeros(1000, np.uint32) for _ in range(20)]
        threads = [threading.Thread(target=quick, args=(b,), kwargs={"ndrange": 1000}) for b in arrays]
        for t in threads: t.start()
        for t in threads: t.join()
        mk.device_synchronize()
        print(all(b.numpy()[999] == 999 for b in arrays))
    """)
    assert result.stdout == "True\n", result.stderr


def test_thousands_of_queues() -> None:
    result = python("""
        for _ in range(3000):
            quick(a, ndrange=1000, queue=mk.Queue())
        mk.device_synchronize()
        print(a.numpy()[999])
    """)
    assert result.stdout == "999\n", result.stderr


def test_launches_of_objects_that_go_last() -> None:
    result = python("""
        class Last:
            def __del__(self):
                self.kernel(self.array, ndrange=1)
                self.array.numpy()

        last = Last()
        last.kernel, last.array = quick, a
        quick(a, ndrange=1)
        mk.synchronize()
        sys.last_of_all = last  # outlives the table of modules
    """)
    assert result.returncode == 0, result.stderr

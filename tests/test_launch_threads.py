"""Launches from several threads: on queues of their own, on one queue, and when a queue has more than enough to do."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import metalki as mk

SOURCE = """
#include <metal_stdlib>
using namespace metal;
kernel void step(device uint* a, constant uint& factor, constant uint& term, uint i [[thread_position_in_grid]]) {
    a[i] = a[i] * factor + term;
}
kernel void count(device atomic_uint* total, constant uint& amount) {
    atomic_fetch_add_explicit(total, amount, memory_order_relaxed);
}
kernel void slow(device volatile uint* a, constant uint& n) {
    for (uint i = 1; i <= n; ++i) a[0] = i;
}
"""
THREADS = 4


@pytest.fixture(scope="module")
def library() -> mk.Library:
    return mk.compile(SOURCE)


def in_threads(work: Callable[[int], None]) -> None:
    """Calls work(0), work(1), ... at once; raises what one of them raised."""
    errors: list[BaseException] = []
    ready = threading.Barrier(THREADS)

    def run(number: int) -> None:
        try:
            ready.wait()
            work(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def expected(start: int, steps: list[tuple[int, int]]) -> int:
    for factor, term in steps:
        start = (start * factor + term) % 2**32
    return start


def test_threads_on_queues_of_their_own(library: mk.Library) -> None:
    step = library["step"]

    def work(number: int) -> None:
        a = mk.full(5, number, np.uint32)
        steps = [(2 * i + 3, number + i) for i in range(1500)]
        for i, (factor, term) in enumerate(steps):
            step(a, factor, term, ndrange=5)
            if i % 97 == number:
                mk.synchronize()
        assert a.numpy().tolist() == [expected(number, steps)] * 5

    in_threads(work)


def test_threads_on_one_queue(library: mk.Library) -> None:
    count, step = library["count"], library["step"]
    queue = mk.Queue(label="shared")
    total = mk.zeros(1, np.uint32)

    def work(number: int) -> None:
        own = mk.zeros(1, np.uint32)
        steps = [(3, i) for i in range(800)]
        for i, (factor, term) in enumerate(steps):
            count(total, number + 1, ndrange=3, queue=queue)
            step(own, factor, term, ndrange=1, queue=queue)
            if i % 89 == number:
                queue.synchronize()
        queue.synchronize()
        assert own.numpy()[0] == expected(0, steps)

    in_threads(work)
    queue.synchronize()
    assert total.numpy()[0] == sum(800 * 3 * (number + 1) for number in range(THREADS))


def test_arrays_that_go_while_other_threads_launch_on_the_same_queue(library: mk.Library) -> None:
    step = library["step"]
    queue = mk.Queue()
    kept: list[list[mk.Array]] = [[] for _ in range(THREADS)]

    def work(number: int) -> None:
        for i in range(400):
            a = mk.full(3, i, np.uint32)
            step(a, 1, number, ndrange=3, queue=queue)
            if i % 50 == 0:
                kept[number].append(a)

    in_threads(work)
    queue.synchronize()
    for number, arrays in enumerate(kept):
        for i, array in enumerate(arrays):
            assert array.numpy().tolist() == [50 * i + number] * 3


def test_refused_launches_among_others_change_nothing(library: mk.Library) -> None:
    step, queue = library["step"], mk.Queue()

    def work(number: int) -> None:
        a = mk.zeros(1, np.uint32)
        for i in range(300):
            bad: Any = (-1, 1.5, 2**32, "1", None)[i % 5]
            with pytest.raises(mk.ArgumentError):
                step(a, 1, bad, ndrange=1, queue=queue)
            step(a, 1, 1, ndrange=1, queue=queue)
        queue.synchronize()
        assert a.numpy()[0] == 300

    in_threads(work)


STEP = st.tuples(st.integers(0, 2), st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1), st.sampled_from("lllfsc"))


@settings(max_examples=60, deadline=None)
@given(st.lists(STEP, max_size=40))
def test_any_order_over_several_queues_kept_by_events(
    library: mk.Library, steps: list[tuple[int, int, int, str]]
) -> None:
    queues = [mk.Queue(), mk.Queue(), mk.global_queue()]
    a = mk.full(2, 1, np.uint32)
    last = queues[0]
    for number, factor, term, how in steps:
        queue = queues[number]
        if queue is not last:
            queue.wait_event(last.record_event())
        library["step"](a, factor, term, ndrange=2, queue=queue)
        if how == "f":
            queue.flush()
        elif how == "s":
            queue.synchronize()
        elif how == "c":
            mk.on_complete(lambda: None, queue)
        last = queue
    last.synchronize()
    assert a.numpy().tolist() == [expected(1, [(factor, term) for _, factor, term, _ in steps])] * 2


def test_a_launch_that_waits_for_the_queue_lets_other_threads_go_on(library: mk.Library) -> None:
    a, b = mk.zeros(1, np.uint32), mk.zeros(1, np.uint32)
    queue = mk.Queue()
    launches = 20_000  # more than a queue takes at once
    ticks = 0
    stop = threading.Event()

    def tick() -> None:
        nonlocal ticks
        while not stop.wait(0.001):
            ticks += 1

    ticker = threading.Thread(target=tick)
    library["slow"](a, 300_000_000, ndrange=1, queue=queue)
    queue.flush()
    ticker.start()
    event = queue.record_event()
    while not event.is_complete and launches > 0:
        library["step"](b, 1, 1, ndrange=1, queue=queue)
        launches -= 1
    before = ticks
    for _ in range(launches):
        library["step"](b, 1, 1, ndrange=1, queue=queue)
    stop.set()
    ticker.join()
    queue.synchronize()
    assert a.numpy()[0] == 300_000_000
    assert b.numpy()[0] == 20_000
    assert before > 10

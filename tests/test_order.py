"""Order across queues, threads and asyncio tasks, kept by the device while the host goes on."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import numpy as np
import pytest

import metalki as mk
from metalki import kernel_interface as KI

B = mk.MetalBackend()
SLOW = """
kernel void slow(device volatile uint* a, constant uint& n) {
    for (uint i = 1; i <= n; ++i) a[0] = i;
}
"""
COPY = "kernel void copy(device uint* out, device const uint* in) { out[0] = in[0] + 1; }"
MUCH = 400_000_000


@pytest.fixture(scope="module")
def slow() -> mk.Kernel:
    return mk.Kernel(SLOW)


@pytest.fixture(scope="module")
def copy() -> mk.Kernel:
    return mk.Kernel(COPY)


def pair() -> tuple[mk.Array, mk.Array]:
    return mk.zeros(1, np.uint32), mk.zeros(1, np.uint32)


def test_the_device_waits_for_an_event_not_the_host(slow: mk.Kernel, copy: mk.Kernel) -> None:
    a, b = pair()
    first, second = mk.Queue(label="first"), mk.Queue(label="second")
    slow(a, MUCH, ndrange=1, queue=first)
    event = KI.record_event(B, first)
    KI.wait_event(B, event, second)
    copy(b, a, ndrange=1, queue=second)
    second.flush()
    assert not event.is_complete  # the long kernel still runs, and yet the host is here
    second.synchronize()
    assert event.is_complete
    assert b.numpy()[0] == MUCH + 1


def test_events_of_the_callers_queue(slow: mk.Kernel, copy: mk.Kernel) -> None:
    a, b = pair()
    slow(a, 1000, ndrange=1)
    event = KI.record_event(B)
    other = mk.Queue()
    KI.wait_event(B, event, other)
    copy(b, a, ndrange=1, queue=other)
    KI.wait_event(B, KI.record_event(B, other))
    copy(a, b, ndrange=1)
    mk.synchronize()
    assert a.numpy()[0] == 1002


@pytest.mark.parametrize("bad", [3, "queue", object()])
def test_bad_queues_and_events(bad: Any) -> None:
    with pytest.raises(mk.ArgumentError, match="record_event"):
        KI.record_event(B, bad)
    with pytest.raises(mk.ArgumentError, match="wait_event"):
        KI.wait_event(B, bad)
    with pytest.raises(mk.ArgumentError, match="wait_event"):
        KI.wait_event(B, KI.record_event(B), bad)
    with pytest.raises(mk.ArgumentError, match="synchronize"):
        mk.synchronize(bad)


def test_spawned_work_follows_the_spawners_and_wait_orders_the_caller(slow: mk.Kernel, copy: mk.Kernel) -> None:
    a, b = pair()
    c = mk.zeros(1, np.uint32)
    caller = mk.global_queue()

    def work(source: mk.Array, target: mk.Array) -> str:
        assert mk.global_queue() != caller
        copy(target, source, ndrange=1)
        return "done"

    slow(a, MUCH, ndrange=1)
    before = KI.record_event(B)
    task = KI.spawn(work, a, b)
    task.wait()
    copy(c, b, ndrange=1)
    assert not before.is_complete
    assert task.result() == "done"
    mk.synchronize()
    assert c.numpy()[0] == MUCH + 2


def test_many_spawned_tasks(copy: mk.Kernel) -> None:
    arrays = [mk.zeros(1, np.uint32) for _ in range(9)]
    tasks = [KI.spawn(lambda t=target: copy(t, arrays[0], ndrange=1)) for target in arrays[1:]]
    for task in tasks:
        task.wait()
    mk.synchronize()
    assert [int(a.numpy()[0]) for a in arrays] == [0] + [1] * 8


def test_what_a_task_raises_reaches_the_caller() -> None:
    def work() -> None:
        raise KeyError("lost")

    task = KI.spawn(work)
    with pytest.raises(KeyError, match="lost"):
        task.result()
    with pytest.raises(KeyError, match="lost"):
        task.wait()
    with pytest.raises(mk.ArgumentError, match="spawn"):
        KI.spawn(3)  # type: ignore[arg-type]


def test_a_task_has_the_device_of_its_spawner() -> None:
    with mk.use_device("cpu") as chosen:
        assert KI.spawn(mk.device).result() == chosen


def test_queues_differ_by_thread_and_stay_within_one() -> None:
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(mk.global_queue()))
    thread.start()
    thread.join()
    assert mk.global_queue() == mk.global_queue()
    assert found[0] != mk.global_queue()
    assert len({mk.global_queue(), mk.global_queue()}) == 1


def test_devices_and_queues_compare_with_anything() -> None:
    for thing in (mk.device(), mk.Queue(), mk.global_queue()):
        for other in (None, 3, "x", object(), mk.devices):
            assert thing != other
        assert thing in [None, thing]


def test_asyncio_tasks_have_queues_of_their_own(slow: mk.Kernel, copy: mk.Kernel) -> None:
    a, b = pair()
    slow(a, 1000, ndrange=1)

    async def child(target: mk.Array) -> Any:
        copy(target, a, ndrange=1)
        mine = mk.global_queue()
        await mk.synchronize_async()
        assert mk.global_queue() == mine
        return mine, int(target.numpy()[0])

    async def main() -> None:
        results = await asyncio.gather(child(b), child(mk.zeros(1, np.uint32)))
        assert [value for _, value in results] == [1001, 1001]
        assert len({queue for queue, _ in results} | {mk.global_queue()}) == 3

    asyncio.run(main())


def test_devices_are_chosen_per_asyncio_task() -> None:
    async def child() -> mk.Device:
        mk.set_device("cpu")
        await asyncio.sleep(0)
        return mk.device()

    async def main() -> None:
        before = mk.device()
        assert (await asyncio.create_task(child())).id == "cpu"
        assert mk.device() == before

    asyncio.run(main())


def test_other_asyncio_tasks_run_during_synchronize_async(slow: mk.Kernel) -> None:
    a, _ = pair()
    steps = 0

    async def step() -> None:
        nonlocal steps
        while True:
            steps += 1
            await asyncio.sleep(0.001)

    async def main() -> None:
        other = asyncio.create_task(step())
        slow(a, MUCH, ndrange=1)
        await mk.synchronize_async()
        other.cancel()

    asyncio.run(main())
    assert a.numpy()[0] == MUCH
    assert steps > 1


def test_completion_callbacks_in_order_and_their_errors(slow: mk.Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    a, _ = pair()
    queue = mk.Queue()
    seen: list[Any] = []
    last = threading.Event()
    monkeypatch.setattr(threading, "excepthook", lambda args: seen.append(args.exc_type))
    slow(a, 1000, ndrange=1, queue=queue)
    mk.on_complete(lambda: seen.append(int(a.numpy()[0])), queue)
    mk.on_complete(lambda: 1 / 0, queue)
    mk.on_complete(last.set, queue)
    queue.synchronize()
    assert last.wait(30)
    assert seen == [1000, ZeroDivisionError]
    with pytest.raises(mk.ArgumentError, match="on_complete"):
        mk.on_complete(3)  # type: ignore[arg-type]


def test_a_callback_may_launch_and_wait(copy: mk.Kernel) -> None:
    a, b = pair()
    done = threading.Event()

    def again() -> None:
        copy(b, a, ndrange=1)
        mk.synchronize()
        done.set()

    copy(a, b, ndrange=1)
    mk.on_complete(again)
    mk.synchronize()
    assert done.wait(30)
    assert b.numpy()[0] == 2


def test_many_launches_before_a_callback_do_not_lock_up(slow: mk.Kernel, copy: mk.Kernel) -> None:
    """A launch may have to wait for earlier ones, whose completion must not need what the launching thread holds."""
    a, b = pair()
    count = 0
    done = threading.Event()

    def counted() -> None:
        nonlocal count
        count += 1
        if count == 200:
            done.set()

    slow(a, MUCH // 4, ndrange=1)
    for _ in range(200):
        copy(b, a, ndrange=1)
        mk.on_complete(counted)
        mk.global_queue().flush()
    mk.synchronize()
    assert done.wait(30)


@pytest.mark.parametrize("level", ["high", "normal", "low"])
def test_priority(level: str) -> None:
    KI.priority(B, level)
    with pytest.raises(mk.ArgumentError, match="priority"):
        KI.priority(B, level.upper())


@pytest.mark.parametrize("function", [None, 3, "x"])
def test_what_is_called_on_completion_is_a_function(function: Any) -> None:
    with pytest.raises(mk.ArgumentError, match="a function is expected"):
        mk.on_complete(function)

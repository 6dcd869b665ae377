"""Random kernels of one SIMD-group with their answer: which lanes are active together follows the source's structure.

A kernel is a tree that knows its text and what it does to all lanes at once; `r` holds a number a lane, `key` differs by lane,
and SIMD functions mix into `r` who took part.

python tests/differential/structure.py [--count 1000] [--seed 0]      for the executor that the environment names
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

Lanes = np.ndarray
WIDTH = 32
Value = Callable[["Frame"], Lanes]
Step = Callable[["Frame", Lanes], Lanes]  # what lanes do, and which of them come out at the end


@dataclass
class Frame:
    """A call of a function: its variables, and the lanes that have left parts of it."""

    variables: dict[str, Lanes]
    returned: Lanes = field(default_factory=lambda: np.zeros(WIDTH, bool))
    broken: list[Lanes] = field(default_factory=list)
    continued: list[Lanes] = field(default_factory=list)


@dataclass
class Piece:
    text: str
    run: Step


def number(value: int) -> Lanes:
    return np.full(WIDTH, value, np.uint32)


def in_turn(pieces: list[Piece]) -> Piece:
    """One statement after the other."""

    def run(frame: Frame, on: Lanes) -> Lanes:
        for piece in pieces:
            if not on.any():
                break
            on = piece.run(frame, on)
        return on

    return Piece("".join(piece.text for piece in pieces), run)


class Writer:
    """Writes one kernel."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.count = 0
        self.left = self.rng.choice((6, 10, 16))
        self.functions: list[tuple[str, Piece]] = []

    def condition(self, counters: list[str]) -> tuple[str, Value]:
        """Of the lane's key, its result so far and the counters of the loops around."""
        shift, added, mask = self.rng.randrange(6), self.rng.randrange(8), self.rng.choice((1, 3, 5, 7))
        limit = self.rng.randrange(1, mask + 1)
        names = [self.rng.choice(["key", "key", "r", *counters]), self.rng.choice(["key", *counters])]

        def run(frame: Frame) -> Lanes:
            a, b = (frame.variables[name] for name in names)
            return (((a >> np.uint32(shift)) + b + np.uint32(added)) & np.uint32(mask)) < limit

        return f"(((({names[0]} >> {shift}) + {names[1]} + {added}u) & {mask}u) < {limit}u)", run

    def mix(self) -> Piece:
        """Lanes tell each other something."""
        added = self.rng.randrange(100)
        kind = self.rng.choice(("ballot", "sum", "first", "shuffle"))

        def found(r: Lanes, on: Lanes) -> Lanes:
            if kind == "ballot":
                return number(int(np.sum(np.uint64(1) << np.arange(WIDTH, dtype=np.uint64)[on])) & 0xFFFFFFFF)
            if kind == "sum":
                return number(int(np.sum(r[on], dtype=np.uint64)) & 0xFFFFFFFF)
            if kind == "first":
                return number(int(r[np.flatnonzero(on)[0]]))
            other = np.arange(WIDTH) ^ 1
            return np.where(on[other], r[other], np.uint32(0))

        call = {
            "ballot": "uint(ulong(simd_active_threads_mask()))",
            "sum": "simd_sum(r)",
            "first": "simd_broadcast_first(r)",
            "shuffle": "simd_shuffle_xor(r, ushort(1))",
        }[kind]

        def run(frame: Frame, on: Lanes) -> Lanes:
            r = frame.variables["r"]
            frame.variables["r"] = np.where(on, r * np.uint32(31) + found(r, on) + np.uint32(added), r)
            return on

        return Piece(f"r = r * 31u + {call} + {added}u;\n", run)

    def branch(self, inside: Where) -> Piece:
        text, holds = self.condition(inside.counters)
        then, other = self.block(inside), self.block(inside) if self.rng.random() < 0.5 else in_turn([])

        def run(frame: Frame, on: Lanes) -> Lanes:
            taken = holds(frame) & on
            return then.run(frame, taken) | other.run(frame, on & ~taken)

        return Piece(f"if ({text}) {{\n{then.text}}}" + (f" else {{\n{other.text}}}\n" if other.text else "\n"), run)

    def both(self, inside: Where) -> Piece:
        """The second condition asks the lanes that look at it."""
        text, holds = self.condition(inside.counters)
        word, limit = self.rng.choice(("&&", "||")), self.rng.randrange(1, WIDTH)
        then = self.block(inside)

        def run(frame: Frame, on: Lanes) -> Lanes:
            first = holds(frame) & on
            asked = first if word == "&&" else on & ~first
            many = np.full(WIDTH, asked.sum() < limit)
            taken = asked & many if word == "&&" else first | (asked & many)
            return then.run(frame, taken) | (on & ~taken)

        return Piece(f"if ({text} {word} simd_sum(1u) < {limit}u) {{\n{then.text}}}\n", run)

    def loop(self, inside: Where) -> Piece:
        self.count += 1
        counter, kind = f"k{self.count}", self.rng.choice(("for", "while", "do", "for(;;)"))
        shift, least = self.rng.randrange(6), self.rng.randrange(2)
        body = self.block(Where(inside.depth + 1, [*inside.counters, counter], True, True, inside.calls), 4)

        def goes_on(frame: Frame) -> Lanes:
            limit = ((frame.variables["key"] >> np.uint32(shift)) & np.uint32(3)) + np.uint32(least)
            return frame.variables[counter] < limit

        def run(frame: Frame, on: Lanes) -> Lanes:
            frame.variables[counter] = number(0)
            out = np.zeros(WIDTH, bool)
            first = True
            while on.any():
                if not (kind == "do" and first):
                    out, on = out | (on & ~goes_on(frame)), on & goes_on(frame)
                first = False
                early = kind != "for" and kind != "do"
                if early:
                    frame.variables[counter] = frame.variables[counter] + on.astype(np.uint32)
                frame.broken.append(np.zeros(WIDTH, bool))
                frame.continued.append(np.zeros(WIDTH, bool))
                on = body.run(frame, on)
                out, on = out | frame.broken.pop(), on | frame.continued.pop()
                if not early:
                    frame.variables[counter] = frame.variables[counter] + on.astype(np.uint32)
            return out

        limit = f"((key >> {shift}) & 3u) + {least}u"
        text = {
            "for": f"for (uint {counter} = 0; {counter} < {limit}; ++{counter}) {{\n{body.text}}}\n",
            "while": f"{{ uint {counter} = 0; while ({counter} < {limit}) {{ ++{counter};\n{body.text}}} }}\n",
            "do": f"{{ uint {counter} = 0; do {{\n{body.text}}} while (++{counter} < {limit}); }}\n",
            "for(;;)": f"for (uint {counter} = 0;;) {{ if (!({counter} < {limit})) break; ++{counter};\n{body.text}}}\n",
        }[kind]
        return Piece(text, run)

    def leave(self, inside: Where) -> Piece:
        """Some lanes go: out of the loop or switch, to the next iteration, out of the function."""
        words = ["return"] + ["break"] * 3 * inside.breaks + ["continue"] * 2 * inside.continues
        word = self.rng.choice(words)
        text, holds = self.condition(inside.counters)
        before = self.block(inside, 2) if self.rng.random() < 0.6 else in_turn([])
        ended = self.rng.random() < 0.2 and inside.depth > 0  # nothing comes behind

        def run(frame: Frame, on: Lanes) -> Lanes:
            going = on if ended else holds(frame) & on
            gone = before.run(frame, going)
            if word == "return":
                frame.returned |= gone
            else:
                lists = frame.broken if word == "break" else frame.continued
                lists[-1] = lists[-1] | gone
            return on & ~going

        says = "return r;" if word == "return" else f"{word};"
        body = f"{{\n{before.text}{says}\n}}\n"
        return Piece(body if ended else f"if ({text}) {body}", run)

    def switch(self, inside: Where) -> Piece:
        shift, count = self.rng.randrange(5), self.rng.randint(2, 4)
        within = Where(inside.depth + 1, inside.counters, True, inside.continues, inside.calls)
        cases = [(self.block(within, 2), self.rng.random() < 0.6) for _ in range(count)]

        def run(frame: Frame, on: Lanes) -> Lanes:
            value = np.minimum((frame.variables["key"] >> np.uint32(shift)) & np.uint32(3), np.uint32(count - 1))
            frame.broken.append(np.zeros(WIDTH, bool))
            here = np.zeros(WIDTH, bool)
            for index, (case, breaks) in enumerate(cases):
                here = case.run(frame, here | (on & (value == index)))
                if breaks:
                    frame.broken[-1] = frame.broken[-1] | here
                    here = np.zeros(WIDTH, bool)
            return here | frame.broken.pop()

        text = f"switch (min((key >> {shift}) & 3u, {count - 1}u)) {{\n"
        for index, (case, breaks) in enumerate(cases):
            label = "default" if index == count - 1 else f"case {index}"
            text += f"{label}: {{\n{case.text}}} {'break;' if breaks else ''}\n"
        return Piece(text + "}\n", run)

    def call(self) -> Piece:
        """A function with ways out of its own."""
        self.count += 1
        name = f"f{self.count}"
        body = self.block(Where(0, [], False, False, False), 4)
        self.functions.append((name, body))

        def run(frame: Frame, on: Lanes) -> Lanes:
            inner = Frame({"key": frame.variables["key"], "r": frame.variables["r"]})
            body.run(inner, on)
            frame.variables["r"] = np.where(on, inner.variables["r"], frame.variables["r"])
            return on

        return Piece(f"r = {name}(key, r);\n", run)

    def statement(self, inside: Where) -> Piece:
        roll = self.rng.random()
        within = Where(inside.depth + 1, inside.counters, inside.breaks, inside.continues, inside.calls)
        if inside.depth < 4 and roll < 0.55:
            choice = self.rng.randrange(8)
            if choice < 2:
                return self.branch(within)
            if choice < 4:
                return self.loop(inside)
            if choice == 4:
                return self.both(within)
            if choice == 5:
                return self.switch(inside)
            if choice == 6 and inside.calls:
                return self.call()
            return self.leave(within)
        return self.mix()

    def block(self, inside: Where, most: int = 3) -> Piece:
        pieces = []
        for _ in range(self.rng.randint(1, most)):
            if self.left <= 0:
                break
            self.left -= 1
            pieces.append(self.statement(inside))
        if self.rng.random() < 0.5:
            pieces.append(self.mix())
        return in_turn(pieces)


@dataclass
class Where:
    """What surrounds a statement."""

    depth: int
    counters: list[str]
    breaks: bool
    continues: bool
    calls: bool


KEYS = np.random.default_rng(11).integers(0, 2**32, WIDTH, dtype=np.uint32)


def lanes_of(seed: int) -> int:
    """How many threads the launch of a kernel has."""
    return (WIDTH, WIDTH, 20, 7)[seed % 4]


def kernel(seed: int) -> tuple[str, Lanes]:
    """Text of the kernel named k<seed>, and what each lane leaves."""
    writer = Writer(seed)
    outer = Where(0, [], False, False, True)
    pieces = []
    while writer.left > 0:
        writer.left -= 1
        pieces.append(writer.statement(outer))
    body = in_turn([*pieces, writer.mix()])
    text = ""
    for name, function in writer.functions:
        text += f"inline uint {name}_{seed}(uint key, uint r) {{\n{function.text}return r;\n}}\n"
    # The body is a function: a return leaves by way of the kernel's end.
    text += f"inline uint body_{seed}(uint key, uint r) {{\n{body.text}return r;\n}}\n"
    for name, _ in writer.functions:
        text = text.replace(f"= {name}(", f"= {name}_{seed}(")
    text += (
        f"kernel void k{seed}(device uint* o [[buffer(0)]], device const uint* keys [[buffer(1)]],"
        f" uint lane [[thread_index_in_simdgroup]]) {{ o[lane] = body_{seed}(keys[lane], lane); }}\n"
    )
    frame = Frame({"key": KEYS, "r": np.arange(WIDTH, dtype=np.uint32)})
    body.run(frame, np.arange(WIDTH) < lanes_of(seed))
    return text, frame.variables["r"][: lanes_of(seed)]


def differences(seeds: range) -> list[int]:
    """The seeds whose kernels give another answer."""
    import metalki as mk

    wanted = {seed: kernel(seed) for seed in seeds}
    source = "#include <metal_stdlib>\nusing namespace metal;\n" + "".join(text for text, _ in wanted.values())
    library, keys, wrong = mk.compile(source), mk.array(KEYS), []
    for seed, (_, answer) in wanted.items():
        out, size = mk.zeros(lanes_of(seed), np.uint32), (lanes_of(seed),)
        library.kernel(f"k{seed}")(out, keys, ndrange=size, workgroupsize=size)
        if not np.array_equal(out.numpy(), answer):
            wrong.append(seed)
    return wrong


def main() -> int:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    wrong: list[int] = []
    for first in range(given.seed, given.seed + given.count, 25):
        found = differences(range(first, min(first + 25, given.seed + given.count)))
        for seed in found:
            print(f"seed {seed} differs:\n{kernel(seed)[0]}", flush=True)
        wrong += found
    print(f"{given.count} kernels, {len(wrong)} with another answer: {wrong}")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())

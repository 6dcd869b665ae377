"""Random expressions of all types, whose values are defined and the same everywhere."""

from __future__ import annotations

import random

from tree import Expression

UNSIGNED = ("uint", "ushort", "uchar", "ulong")
SIGNED = ("int", "short", "char", "long")
INTEGERS = UNSIGNED + SIGNED
FLOATS = ("float", "half", "bfloat")
VECTORS = {
    "uint4": ("uint", 4),
    "int2": ("int", 2),
    "float4": ("float", 4),
    "short3": ("short", 3),
    "half4": ("half", 4),
    "half3": ("half", 3),
    "bfloat2": ("bfloat", 2),
    "char4": ("char", 4),
    "long2": ("long", 2),
}
BITS = {"uint": 32, "int": 32, "ushort": 16, "short": 16, "uchar": 8, "char": 8, "ulong": 64, "long": 64}
WORDS = 8  # of `o`, for each thread
SIZE = 1024  # elements of every input

LOADS = {"uint": "a", "uchar": "ac", "short": "as", "long": "al", "float": "af", "half": "ah", "uint4": "av"}


class Expressions:
    """What a kernel knows while it is written, and random expressions of it.

    `kind`: "flat" (only the place in the grid), "simd" (SIMD functions), "group" (barriers too).
    """

    def __init__(self, seed: int, floats: bool) -> None:
        self.rng = random.Random(seed)
        self.kind = self.rng.choice(("flat", "flat", "simd", "simd", "group", "group"))
        self.floats = floats
        self.scopes: list[list[tuple[str, str, bool]]] = [[]]  # name, type, may be assigned
        self.arrays: list[tuple[str, str, int]] = [("arr", "uint", 8), ("four", "uint", 4)]
        self.uniform = ["n", "cr.a", "uint(cr.t[1])", "gsz.x"]
        self.count = 0
        self.left = self.rng.choice((4, 8, 12, 12, 20))

    def pick(self, type_: str, writable: bool = False) -> str | None:
        names = [name for scope in self.scopes for name, t, w in scope if t == type_ and (w or not writable)]
        return self.rng.choice(names) if names else None

    def literal(self, type_: str) -> Expression:
        r = self.rng
        if type_ == "bool":
            return Expression(type_, [r.choice(("true", "false"))])
        if type_ in VECTORS:
            return Expression(type_, [f"{type_}({r.randrange(9)})"])
        if type_ in FLOATS:
            return Expression(type_, [f"{type_}({r.choice((0, 1, 2, 0.5, -1, -3, 100, 0.25, 7, -2.75))})"])
        value = r.choice((0, 1, 2, 3, 5, 7, 8, 15, 16, 31, 32, 63, 64, 100, 127))
        if r.random() < 0.15 and BITS[type_] >= 32:
            value = r.choice((255, 256, 1000, 65535, 65536, 0x7FFFFFFF, 123456789))
        if type_ in SIGNED and r.random() < 0.3:
            value = -value
        return Expression(type_, [f"{type_}({value})"])

    def expression(self, type_: str, depth: int = 3) -> Expression:
        r = self.rng
        if depth <= 0 or r.random() < 0.2:
            name = self.pick(type_)
            return Expression(type_, [name]) if name and r.random() < 0.8 else self.literal(type_)

        def e(t: str = type_) -> Expression:
            return self.expression(t, depth - 1)

        def make(*parts: str | Expression) -> Expression:
            return Expression(type_, list(parts))

        if r.random() < 0.07:
            return make("(", e("bool"), " ? ", e(), " : ", e(), ")")
        if type_ == "bool":
            return self.condition(depth)
        if type_ in VECTORS:
            return self.vector(type_, depth)
        if type_ in LOADS and r.random() < 0.15:
            return make(LOADS[type_], "[", self.index(depth), "]")
        if type_ in FLOATS:
            return self.real(type_, depth)
        return self.integer(type_, depth)

    def index(self, depth: int, size: int = SIZE) -> Expression:
        r = self.rng
        if r.random() < 0.3:
            offset = r.choice((0, 1, 2, 3, -1, 7))
            base = r.choice(["i"] + (["lid", "gid.x", "lane"] if self.kind != "flat" else ["gid.x"]))
            return Expression(
                "uint",
                [f"(({base} + {offset}u) & {size - 1}u)" if offset >= 0 else f"(({base} - {-offset}u) & {size - 1}u)"],
            )
        return Expression("uint", ["(", self.expression("uint", depth - 1), f" & {size - 1}u)"])

    def condition(self, depth: int) -> Expression:
        r = self.rng

        def e(t: str) -> Expression:
            return self.expression(t, depth - 1)

        def make(*parts: str | Expression) -> Expression:
            return Expression("bool", list(parts))

        choice = r.randrange(8)
        if choice == 0:
            return make("(", e("bool"), r.choice((" && ", " || ", " != ")), e("bool"), ")")
        if choice == 1:
            return make("!", e("bool"))
        if choice == 2:
            return make("((", e("uint"), f" & {r.choice((1, 2, 3, 5))}u) ", r.choice(("==", "!=")), " 0u)")
        if choice == 3 and self.floats:
            t = r.choice(FLOATS)
            return make("(", e(t), r.choice((" < ", " >= ", " == ", " != ")), e(t), ")")
        t = r.choice(INTEGERS)
        return make("(", e(t), r.choice((" < ", " > ", " <= ", " == ", " != ")), e(t), ")")

    def integer(self, type_: str, depth: int) -> Expression:
        r = self.rng

        def e(t: str = type_) -> Expression:
            return self.expression(t, depth - 1)

        def make(*parts: str | Expression) -> Expression:
            return Expression(type_, list(parts))

        cast = type_ + "("
        bits = BITS[type_]
        choice = r.randrange(24)
        if choice < 8:
            return make(cast, e(), r.choice((" + ", " - ", " * ", " ^ ", " & ", " | ", " + ", " - ")), e(), ")")
        if choice == 8:
            return make(cast, e(), r.choice((" << ", " >> ")), "(", e("uint"), f" & {bits - 1}u))")
        if choice == 9:
            return make(cast, e(), r.choice((" << ", " >> ")), f"{r.randrange(bits)})")
        if choice == 10:
            divisor: list[str | Expression] = ["(", e(), " | 1)"] if type_ in UNSIGNED else ["((", e(), " & 63) + 1)"]
            return make(cast, e(), r.choice((" / ", " % ")), *divisor, ")")
        if choice == 11:
            number = r.choice((2, 3, 4, 7, 10, 16, 100)) * (-1 if type_ in SIGNED and r.random() < 0.3 else 1)
            return make(cast, e(), r.choice((" / ", " % ")), f"{type_}({number}))")
        if choice in (12, 13):
            return make(cast, e(r.choice((*INTEGERS, "bool"))), ")")
        if choice == 14:
            return make(r.choice(("min", "max", "absdiff" if type_ in UNSIGNED else "max")), "(", e(), ", ", e(), ")")
        if choice == 15:
            return make(cast, r.choice(("popcount", "clz", "ctz", "reverse_bits", "~", "-")), "(", e(), "))")
        if choice == 16:
            return make(
                r.choice(("addsat", "subsat", "hadd", "rhadd", "mulhi")) if bits < 64 else "max",
                "(",
                e(),
                ", ",
                e(),
                ")",
            )
        if choice == 17:
            return make("select(", e(), ", ", e(), ", ", e("bool"), ")")
        if choice == 18 and self.floats:
            return make(cast, "whole(float(", e(r.choice(FLOATS)), ")))")
        if choice == 19:
            v = r.choice([name for name, (element, _) in VECTORS.items() if self.floats or element not in FLOATS])
            if VECTORS[v][0] == type_:
                if r.random() < 0.5:
                    return make("(", e(v), ").", r.choice("xy"))
                # Not a cast to a function's type.
                return make(f"({v}(0) + ", e(v), ")[", e("uint"), f" % {VECTORS[v][1]}u]")
            return make(cast, "bits(", e(v), "))")
        if choice == 20 and type_ == "uint":
            which = r.choice(("steps", "early", "apart", "twice"))
            return make(which, "(", e(), ")") if which in ("steps", "twice") else make(which, "(", e(), ", ", e(), ")")
        if choice == 21 and type_ == "uint":
            name, _t, size = r.choice(self.arrays)
            return make("bits(", name, "[", e("uint"), f" % {size}u])")
        if choice == 22 and type_ in ("uint", "int", "short", "uchar"):
            member = {"uint": "a", "int": "b", "short": "c", "uchar": "d"}[type_]
            base = "cr" if r.random() < 0.3 else "rs["
            return make("cr.", member) if base == "cr" else make("rs[", self.index(depth, 64), "].", member)
        if choice == 23 and type_ == "uint":
            return make("rotate(", e(), ", ", e(), ")") if r.random() < 0.5 else make("extract_bits(", e(), ", 3u, 9u)")
        return make(cast, e(), " + ", e(r.choice(INTEGERS)), ")")

    def real(self, type_: str, depth: int) -> Expression:
        r = self.rng

        def e(t: str = type_) -> Expression:
            return self.expression(t, depth - 1)

        def make(*parts: str | Expression) -> Expression:
            return Expression(type_, list(parts))

        choice = r.randrange(9)
        if choice < 4:
            return make("(", e(), r.choice((" + ", " - ", " * ", " / ")), e(), ")")
        if choice == 4:
            return make(type_, "(", e(r.choice(("int", "uint", "short", "uchar", "float", "half", "bfloat"))), ")")
        if choice == 5:
            return make(r.choice(("floor", "ceil", "trunc", "fabs", "-", "rint")), "(", e(), ")")
        if choice == 6:
            return make("fma(", e(), ", ", e(), ", ", e(), ")") if type_ == "float" else make("(", e(), " - ", e(), ")")
        if choice == 7:
            return make(r.choice(("fmin", "fmax")), "(fabs(", e(), "), fabs(", e(), "))")
        v, size = r.choice([(name, size) for name, (element, size) in VECTORS.items() if element == type_])
        return (
            make(f"({v}(0) + ", e(v), ")[", e("uint"), f" % {size}u]")
            if r.random() < 0.5
            else make("(", e(v), ").", r.choice("xyzw"[:size]))
        )

    def vector(self, type_: str, depth: int) -> Expression:
        r = self.rng
        element, size = VECTORS[type_]

        def e(t: str = type_) -> Expression:
            return self.expression(t, depth - 1)

        def make(*parts: str | Expression) -> Expression:
            return Expression(type_, list(parts))

        choice = r.randrange(6)
        if choice < 3:
            return make("(", e(), r.choice((" + ", " - ", " * ")), e(), ")")
        if choice == 3:
            parts: list[str | Expression] = [type_, "("]
            for k in range(size):
                parts += [", "] if k else []
                parts += [element, "(", e(element), ")"]
            return make(*parts, ")")
        if choice == 4:
            return make("(", e(), ").", "".join(r.choice("xyzw"[:size]) for _ in range(size)))
        return make("(", e(), " * ", type_, "(", e(element), "))")

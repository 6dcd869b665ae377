"""mk.random: Philox against its published vectors, independence of the work-group, statistics, what is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest

import metalki as mk
from metalki import kernel_interface as KI

pytestmark = pytest.mark.filterwarnings("error::metalki.CompileWarning")

# Random123's known answers for philox4x32, 10 rounds: counter, key, result.
KNOWN = [
    ([0] * 4, [0] * 2, [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
    ([0xFFFFFFFF] * 4, [0xFFFFFFFF] * 2, [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]),
    (
        [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344],
        [0xA4093822, 0x299F31D0],
        [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1],
    ),
]


def philox(counter: list[int], key: list[int]) -> list[int]:
    """The reference, in Python's integers."""
    c, k = list(counter), list(key)
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(b >> 32) ^ c[1] ^ k[0], b & 0xFFFFFFFF, (a >> 32) ^ c[3] ^ k[1], a & 0xFFFFFFFF]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c


@pytest.mark.parametrize(("counter", "key", "words"), KNOWN)
def test_known_answers(counter: list[int], key: list[int], words: list[int]) -> None:
    assert philox(counter, key) == words
    assert mk.random.philox(np.array(counter, np.uint32), np.array(key, np.uint32)).tolist() == [words]


def test_every_number_comes_from_its_counter() -> None:
    seed = 0x123456789ABCDEF0
    numbers = mk.random.Generator(seed).random(300).numpy()
    for i in (0, 1, 31, 32, 33, 97, 127, 128, 255, 299):
        word, lane, group = i % 128 // 32, i % 32, i // 128
        wanted = philox([group * 32 + lane, 0, 0, 0], [seed & 0xFFFFFFFF, seed >> 32])[word]
        assert numbers[i] == np.float32(wanted >> 8) / np.float32(2**24)


def test_numbers_do_not_depend_on_the_work_group() -> None:
    def drawn(size: int | None) -> list[bytes]:
        import metalki.algorithms.random as source

        kernels = []
        compiled = source._compiled

        class Sized:
            def __init__(self, kernel: mk.Kernel) -> None:
                self.kernel = kernel

            def __call__(self, *arguments: object, ndrange: tuple[int, ...]) -> None:
                self.kernel(*arguments, ndrange=ndrange, workgroupsize=size)

        def make(*arguments: object) -> Sized:
            kernels.append(Sized(compiled(*arguments)))
            return kernels[-1]

        from metalki.algorithms import _common

        kept = dict(_common._cache)
        _common._cache.clear()
        source._compiled = make
        try:
            g = mk.random.Generator(9)
            found = [g.random(1001), g.normal(size=777), g.integers(0, 1000, 555), g.integers(0, 2**40, 333)]
            return [x.numpy().tobytes() for x in found]
        finally:
            source._compiled = compiled
            _common._cache.clear()
            _common._cache.update(kept)

    first = drawn(None)
    assert all(drawn(size) == first for size in (1, 7, 32, 100, 256))


def test_seeds_and_sequence() -> None:
    def draw(seed: int) -> list[float]:
        return mk.random.Generator(seed).random(100).tolist()

    assert draw(5) == draw(5)
    assert len({tuple(draw(s)) for s in (0, 1, 2**32, 2**64, 2**64 + 1, 2**200)}) == 6
    assert mk.random.Generator(3).random(50).tolist() == mk.random.Generator(3).random(5000).tolist()[:50]
    g = mk.random.Generator(3)
    assert set(g.random(1000).tolist()) != set(g.random(1000).tolist())
    assert mk.random.Generator().random(4).tolist() != mk.random.Generator().random(4).tolist()
    mk.random.seed(11)
    first = mk.random.random(3).tolist()
    mk.random.seed(11)
    assert mk.random.random(3).tolist() == first


def test_out_and_shapes() -> None:
    g, same = mk.random.Generator(1), mk.random.Generator(1)
    out = mk.empty((3, 5))
    assert g.random(out=out) is out
    assert out.tolist() == same.random((3, 5)).tolist()
    assert g.random().shape == ()
    assert g.normal(size=(0, 3)).shape == (0, 3)
    assert g.integers(5, size=4, dtype="uint8").dtype == np.uint8
    with pytest.raises(ValueError, match=r"size must match out\.shape"):
        g.random((5, 3), out=out)
    with pytest.raises(TypeError, match="Unsupported dtype"):
        g.random(3, np.int32)
    with pytest.raises(mk.ArgumentError):
        g.random(out=np.empty(3))  # type: ignore[arg-type]


def chi_square(counts: np.ndarray) -> float:
    """How many standard deviations the statistic of equally likely bins is from its mean."""
    expected = counts.sum() / counts.size
    statistic = float(((counts - expected) ** 2 / expected).sum())
    return (statistic - (counts.size - 1)) / math.sqrt(2 * (counts.size - 1))


N = 1_000_000


def test_uniform_statistics() -> None:
    x = mk.random.Generator(1234).random(N).numpy().astype(np.float64)
    assert 0 <= x.min() < 1e-4
    assert 1 - 1e-4 < x.max() < 1
    assert abs(x.mean() - 0.5) * math.sqrt(12 * N) < 5
    assert abs(x.var() * 12 - 1) * math.sqrt(N / 0.8) < 5
    assert abs(chi_square(np.histogram(x, 1000, (0, 1))[0])) < 5
    ordered = np.sort(x)
    assert np.abs(ordered - (np.arange(N) + 0.5) / N).max() * math.sqrt(N) < 2  # Kolmogorov-Smirnov


@pytest.mark.parametrize("lag", [1, 2, 3, 4, 7, 31, 32, 33, 64, 96, 127, 128, 129, 1000])
def test_pairs_at_a_lag_are_independent(lag: int) -> None:
    x = mk.random.Generator(77).random(N).numpy()
    assert abs(np.corrcoef(x[:-lag], x[lag:])[0, 1]) * math.sqrt(N) < 5
    cells = (x[:-lag] * 32).astype(int) * 32 + (x[lag:] * 32).astype(int)
    assert abs(chi_square(np.bincount(cells, minlength=1024))) < 5
    low = (
        mk.random.Generator(77).integers(0, 2**32, N, np.uint32).numpy() & 31
    )  # the lowest bits, which floats do not show
    assert abs(chi_square(np.bincount(low[:-lag] * 32 + low[lag:], minlength=1024))) < 5


def test_neighbouring_seeds_are_independent() -> None:
    x, y = (mk.random.Generator(seed).random(N).numpy() for seed in (100, 101))
    assert abs(np.corrcoef(x, y)[0, 1]) * math.sqrt(N) < 5
    cells = (x * 32).astype(int) * 32 + (y * 32).astype(int)
    assert abs(chi_square(np.bincount(cells, minlength=1024))) < 5


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_small_floats(dtype: str) -> None:
    x = mk.random.Generator(5).random(100000, dtype).numpy().astype(np.float64)
    assert x.min() >= 0
    assert x.max() < 1
    assert abs(x.mean() - 0.5) < 0.01
    z = mk.random.Generator(5).normal(size=100000, dtype=dtype).numpy().astype(np.float64)
    assert abs(z.mean()) < 0.02
    assert abs(z.std() - 1) < 0.02


def test_normal_statistics() -> None:
    z = mk.random.Generator(4321).normal(size=N).numpy().astype(np.float64)
    root = math.sqrt(N)
    assert abs(z.mean()) * root < 5
    assert abs(z.var() - 1) * root / math.sqrt(2) < 5
    assert abs((z**3).mean()) * root / math.sqrt(15) < 5
    assert abs((z**4).mean() - 3) * root / math.sqrt(96) < 5
    assert abs((z**6).mean() - 15) * root / math.sqrt(10170) < 5
    below = np.array([0.5 * math.erfc(-q / math.sqrt(2)) for q in np.linspace(-4, 4, 81)])
    counted = np.searchsorted(np.sort(z), np.linspace(-4, 4, 81)) / N
    assert (np.abs(counted - below) * root / np.sqrt(below * (1 - below))).max() < 5
    for lag in (1, 2, 32, 64, 128):
        assert abs(np.corrcoef(z[:-lag], z[lag:])[0, 1]) * root < 5
        assert abs(np.corrcoef(z[:-lag] ** 2, z[lag:] ** 2)[0, 1]) * root < 5
    scaled = mk.random.Generator(4321).normal(3, 0.5, N).numpy()
    np.testing.assert_allclose(scaled, 3 + 0.5 * z, rtol=1e-5, atol=1e-6)
    with pytest.raises(ValueError, match="scale < 0"):
        mk.random.normal(0, -1, 3)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"])
def test_integers_of_the_whole_range(dtype: str) -> None:
    info = np.iinfo(dtype)
    x = mk.random.Generator(6).integers(int(info.min), int(info.max), 200000, dtype, endpoint=True).numpy()
    high = (x.astype(np.float64) - info.min) / 2.0 ** (8 * x.itemsize) * 64
    assert abs(chi_square(np.bincount(high.astype(int), minlength=64))) < 5
    assert abs(chi_square(np.bincount((x & x.dtype.type(15)).astype(int), minlength=16))) < 5


@pytest.mark.parametrize("count", [2, 3, 7, 10, 100, 1000, 3 << 30, 3 << 40, (1 << 64) - 1, 3 << 62])
def test_bounded_integers_are_equally_likely(count: int) -> None:
    x = mk.random.Generator(8).integers(0, count, 300000, np.uint64).numpy()
    assert int(x.max()) < count
    bins = count if count <= 1000 else 97
    cells = (
        np.array([int(v) * bins // count for v in x.tolist()]) if count > 2**32 else x.astype(np.int64) * bins // count
    )
    assert abs(chi_square(np.bincount(cells, minlength=bins))) < 5


def test_integer_bounds() -> None:
    g = mk.random.Generator(2)
    assert set(g.integers(-3, 4, 1000).tolist()) == set(range(-3, 4))
    assert set(g.integers(-3, 4, 1000, endpoint=True).tolist()) == set(range(-3, 5))
    assert set(g.integers(0, 2, 100, bool).tolist()) == {False, True}
    assert set(g.integers(5, 6, 10).tolist()) == {5}
    for arguments, words in (
        ((3, 3), "low >= high"),
        ((0, 300, 3, "uint8"), "high is out of bounds for uint8"),
        ((-1, 3, 3, "uint8"), "low is out of bounds for uint8"),
    ):
        with pytest.raises(ValueError, match=words):
            g.integers(*arguments)
    with pytest.raises(ValueError, match="non-negative"):
        mk.random.Generator(-1)
    with pytest.raises(TypeError):
        mk.random.Generator("x")  # type: ignore[arg-type]


def test_shuffle() -> None:
    x = mk.array(np.arange(1000).reshape(100, 10))
    mk.random.Generator(3).shuffle(x)
    rows = x.numpy()
    assert sorted(rows[:, 0].tolist()) == list(range(0, 1000, 10))
    assert rows[:, 0].tolist() != list(range(0, 1000, 10))
    np.testing.assert_array_equal(rows - rows[:, :1], np.broadcast_to(np.arange(10), (100, 10)))
    g, seen = mk.random.Generator(4), np.zeros(6, int)
    orders = {(0, 1, 2): 0, (0, 2, 1): 1, (1, 0, 2): 2, (1, 2, 0): 3, (2, 0, 1): 4, (2, 1, 0): 5}
    for _ in range(600):
        seen[orders[tuple(g.permutation(3).tolist())]] += 1
    assert abs(chi_square(seen)) < 5
    with pytest.raises(TypeError):
        mk.random.shuffle(mk.array(1))


def test_kernels_of_others_see_the_numbers_in_order() -> None:
    x = mk.random.Generator(1).random(1000)
    KI.synchronize(mk.MetalBackend())
    assert 0.4 < float(mk.mean(x)) < 0.6

"""A short fuzz run, the fuzzer's corpus, and that the fuzzer sees what it looks for."""

from __future__ import annotations

import random
from collections.abc import Iterator

import fuzz
import generate
import pytest

import metalki as mk

SOURCES = 300
FINDINGS = ("odd", "died", "hung")


@pytest.fixture
def fuzzer() -> Iterator[fuzz.Fuzzer]:
    made = fuzz.Fuzzer()
    yield made
    made.worker.close()


def test_no_source_crashes_or_hangs(fuzzer: fuzz.Fuzzer) -> None:
    files = generate.corpus()
    for seed in range(SOURCES):
        source = generate.source(seed, files)
        kind, verdict = fuzzer.run(source)
        assert kind not in FINDINGS, f"source {seed}: {verdict}\n{source}"
    assert fuzzer.counts["ok"] > SOURCES // 20
    assert fuzzer.counts["refused"] > SOURCES // 20


@pytest.mark.parametrize("path", sorted(generate.CORPUS.glob("*.metal")), ids=lambda path: path.stem)
def test_corpus_compiles(path: generate.Path) -> None:
    assert mk.compile(path).function_names


def test_tokens_are_the_text_again() -> None:
    for text in generate.corpus():
        assert "".join(generate.tokens(text)) == text


def test_same_seed_same_source() -> None:
    files = generate.corpus()
    assert [generate.source(n, files) for n in range(20)] == [generate.source(n, files) for n in range(20)]


@pytest.mark.parametrize(
    ("worker", "kind"),
    [
        ("import os; os.abort()", "died"),
        ("import time; time.sleep(600)", "hung"),
        ("while True: pass", "hung"),
        ("import sys; sys.stdout.buffer.write(bytes([5, 0, 0, 0]) + b'odd x'); sys.stdout.flush(); input()", "odd"),
    ],
)
def test_findings_are_seen(worker: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzz, "WORKER", worker)
    monkeypatch.setattr(fuzz, "SECONDS", 1.0)
    monkeypatch.setattr(fuzz, "PATIENCE", 5)
    broken = fuzz.Fuzzer()
    assert broken.run("kernel void k() {}")[0] == kind
    broken.worker.close()


def test_minimised_keeps_what_matters() -> None:
    source = generate.mutated(random.Random(1), generate.corpus()) + " needle + 1 "
    assert fuzz.minimised(source, "x", lambda text: "x" if "needle" in text else None) == "needle"

"""Makes MSL for the fuzzer: programs grown from a grammar, and files of the corpus with their tokens changed."""

from __future__ import annotations

import random
import re
from pathlib import Path

CORPUS = Path(__file__).parent / "corpus"
HEAD = "#include <metal_stdlib>\nusing namespace metal;\n"

GRAMMAR_FILE = Path(__file__).parent / "grammar.txt"


def read_grammar() -> dict[str, list[str]]:
    """Name -> productions, of grammar.txt."""
    grammar: dict[str, list[str]] = {}
    for line in GRAMMAR_FILE.read_text(encoding="utf-8").splitlines():
        if line.startswith("    "):
            text = line.strip().replace("(nothing)", "").replace("\\n", "\n")
            grammar[list(grammar)[-1]].append(text)
        elif line and not line.startswith("# "):
            grammar[line.strip()] = []
    return grammar


GRAMMAR = read_grammar()
PIECE = re.compile(r"‹(\w+)›")
TOKEN = re.compile(
    r'[A-Za-z_]\w*|\d[\w.]*|"(?:\\.|[^"\\\n])*"|<<=|>>=|->|::|\[\[|\]\]|<<|>>|[-+*/%&|^=!<>]=|&&|\|\||\+\+|--|\s+|.',
    re.S,
)
WORDS = " ".join(GRAMMAR.pop("(words)")).split()


def grown(rng: random.Random, symbol: str = "program", depth: int = 14) -> str:
    """A program of the grammar; it parses, mostly, and seldom means something."""
    productions = GRAMMAR[symbol]
    chosen = productions[0] if depth <= 0 else rng.choice(productions)
    return PIECE.sub(lambda piece: grown(rng, piece[1], depth - 1), chosen)


def tokens(text: str) -> list[str]:
    """The text's tokens, white space among them: joined they are the text again."""
    return TOKEN.findall(text)


CLASSES = [line.split() for line in GRAMMAR.pop("(alike)")]


def of_its_kind(rng: random.Random, token: str, text: list[str]) -> str:
    """Another token that could stand where this one stands."""
    for words in CLASSES:
        if token in words:
            return rng.choice(words)
    same = [
        other
        for other in text
        if other and other[0].isalpha() == token[0].isalpha() and other[0].isdigit() == token[0].isdigit()
    ]
    return rng.choice(same) if token[0].isalnum() else token


def mutated(rng: random.Random, files: list[str]) -> str:
    """A file of the corpus with one to eight changes of its tokens."""
    text = tokens(rng.choice(files))
    for _ in range(rng.choice([1, 1, 1, 2, 2, 3, 5, 8])):
        at = rng.randrange(len(text) + 1)
        end = min(len(text), at + rng.choice([1, 1, 2, 4, 9, 30]))
        kind = rng.randrange(16)
        if kind == 0:
            del text[at:end]
        elif kind == 1:
            text[at:at] = text[at:end] * rng.choice([1, 2, 3, 40])
        elif kind == 2:
            text[at:at] = [" ", rng.choice(WORDS), " "]
        elif kind == 3:
            text[at:end] = [rng.choice(WORDS)]
        elif kind == 4:
            other = tokens(rng.choice(files))
            start = rng.randrange(len(other))
            text[at:end] = other[start : start + rng.choice([1, 3, 12, 60])]
        elif kind == 5:
            text[at:end] = text[at:end][::-1]
        elif kind == 6:
            text[at:end] = tokens(grown(rng, rng.choice(list(GRAMMAR)), 5))
        elif kind == 7 and at < len(text):
            text[at] = rng.choice(text)
        elif kind >= 9 and at < len(text):
            text[at] = of_its_kind(rng, text[at], text)
        else:
            opened, closed = rng.choice(
                [("(", ")"), ("{", "}"), ("[", "]"), ("[[", "]]"), ("<", ">"), ("/*", "*/"), ("(", "")]
            )
            count = rng.choice([1, 1, 3, 300])
            text[end:end] = [closed] * count
            text[at:at] = [opened] * count
        text = [token for token in text if token] or [" "]
    return "".join(text)


def corpus() -> list[str]:
    """The texts of all files of the corpus."""
    return [path.read_text(encoding="utf-8") for path in sorted(CORPUS.glob("*.metal"))]


def source(seed: int, files: list[str]) -> str:
    """The fuzzer's source number `seed`: always the same one for the same corpus."""
    rng = random.Random(seed)
    if rng.random() < 0.6:
        return mutated(rng, files)
    return HEAD + grown(rng, depth=rng.choice([8, 10, 12, 14]))

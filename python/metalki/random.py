"""mk.random: random numbers from a counter. See metalki.algorithms.random."""

from __future__ import annotations

from .algorithms.random import Generator, default_rng, integers, normal, philox, random, seed, shuffle

__all__ = ["Generator", "default_rng", "integers", "normal", "philox", "random", "seed", "shuffle"]

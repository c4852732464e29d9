"""Repeats LoadGen's random draws from the logged seeds: loaded samples, issued samples, schedule,
and which answers are logged.

LoadGen draws with std::mt19937 and libstdc++'s distributions. Python's `random` uses the same
generator with a different seeding, so it is given the state that C++ derives from a seed. Source:
mlcommons/inference, loadgen 6.0.17, loadgen.cc and issue_query_controller.h; ISO C++ 26.6 (the
generator); libstdc++ of GCC 11 and later, bits/uniform_int_dist.h, bits/stl_algo.h and
bits/random.tcc (what the standard leaves open). Accuracy runs are repeated with the
libstdc++ before GCC 11 as well.
"""

import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import cycle, islice
from typing import Any, Final

from suite.loadgen.scenario import Scenario
from suite.units import NS_PER_S

TWISTER_STATE_WORDS: Final = 624
"""Words in the generator's state."""
MT19937_MULTIPLIER: Final = 1812433253
"""ISO C++ [rand.eng.mers]: initialization_multiplier of mt19937."""
MT19937_DEFAULT_SEED: Final = 5489
"""std::mt19937::default_seed. LoadGen never seeds the generator that decides which answers are
logged (InitAccLogRng is never called); accuracy_log_rng_seed only rotates it by an offset.
"""
WORD_MASK: Final = 0xFFFFFFFF
BELOW_ONE: Final = math.nextafter(1.0, 0.0)
BYTES_PER_REAL: Final = 8
GENERATED_DURATION_FACTOR: Final = 2
"""loadgen.cc, GenerateQueries: all scenarios except Server prepare queries for twice the
duration.
"""
MAX_CACHED_SHUFFLE_SIZE: Final = 1 << 16
"""Elements of a shuffled order that is worth keeping: the runs of a submission share their seeds
and sizes.
"""
MAX_CACHED_SHUFFLES: Final = 8
"""Maximum number of cached shuffled orders and generator states."""


@lru_cache(maxsize=MAX_CACHED_SHUFFLES)
def compute_twister_state(seed: int) -> tuple[int, ...]:
    """Return the state that C++ derives from a seed, in the form of Python's generator."""
    state = [seed]
    for position in range(1, TWISTER_STATE_WORDS):
        state.append((MT19937_MULTIPLIER * (state[-1] ^ (state[-1] >> 30)) + position) & WORD_MASK)
    return (*state, TWISTER_STATE_WORDS)


class MersenneTwister:
    """std::mt19937 and the distributions that LoadGen draws from it."""

    def __init__(self, seed: int) -> None:
        """Seed as C++ does: only the lower 32 bits count."""
        # not for security: the point is to reproduce the sequence
        self.random = random.Random(0)  # noqa: S311
        self.random.setstate((3, compute_twister_state(seed & WORD_MASK), None))

    def generate_real(self) -> float:
        """Draw from std::uniform_real_distribution<double>(0, 1): two words, the lower one
        first.
        """
        return min(self.random.getrandbits(64) / 2.0**64, BELOW_ONE)

    def generate_reals(self, count: int) -> Any:
        """Draw that many at once: an array (count,) of float64."""
        import numpy

        words = numpy.frombuffer(self.random.randbytes(count * BYTES_PER_REAL), "<u8")
        return numpy.minimum(words / 2.0**64, BELOW_ONE)

    def generate_below(self, bound: int) -> int:
        """Draw from std::uniform_int_distribution(0, bound - 1), by Lemire's method."""
        product = self.random.getrandbits(32) * bound
        if product & WORD_MASK < bound:
            while product & WORD_MASK < (1 << 32) % bound:
                product = self.random.getrandbits(32) * bound
        return product >> 32

    def shuffle(self, order: list[int]) -> list[int]:
        """std::shuffle, in place: one draw places two elements if both positions fit into one
        word.
        """
        if order and WORD_MASK // len(order) < len(order):  # the square of the size exceeds a word
            for at in range(1, len(order)):
                swap_elements(order, at, self.generate_below(at + 1))
            return order
        first = 1
        if order and len(order) % 2 == 0:
            swap_elements(order, 1, self.generate_below(2))
            first = 2
        for at in range(first, len(order), 2):
            left, right = divmod(self.generate_below((at + 1) * (at + 2)), at + 2)
            swap_elements(order, at, left)
            swap_elements(order, at + 1, right)
        return order


class OlderMersenneTwister(MersenneTwister):
    """The same generator with the libstdc++ before GCC 11: all published accuracy logs of v1.0 and
    v3.0 at hand were drawn with it.
    """

    def generate_below(self, bound: int) -> int:
        """Draw from std::uniform_int_distribution(0, bound - 1), by division."""
        scaling = WORD_MASK // bound
        while (word := self.random.getrandbits(32)) >= bound * scaling:
            pass
        return word // scaling


def swap_elements(order: list[int], left: int, right: int) -> None:
    order[left], order[right] = order[right], order[left]


def generate_shuffled_order(
    seed: int, size: int, generator: Callable[[int], MersenneTwister] = MersenneTwister
) -> Sequence[int]:
    """Return the numbers below a size in the order that a seed shuffles them into."""
    if size <= MAX_CACHED_SHUFFLE_SIZE:
        return generate_cached_shuffled_order(seed, size, generator)
    return generator(seed).shuffle(list(range(size)))


@lru_cache(maxsize=MAX_CACHED_SHUFFLES)
def generate_cached_shuffled_order(
    seed: int, size: int, generator: Callable[[int], MersenneTwister]
) -> tuple[int, ...]:
    """Return the same order, and cache it."""
    return tuple(generator(seed).shuffle(list(range(size))))


@lru_cache(maxsize=MAX_CACHED_SHUFFLES)
def compute_state_after_shuffles(seed: int, size: int, again: int, times: int) -> tuple[Any, ...]:
    """Return the state of a generator that has shuffled two sizes, each the given number of
    times.
    """
    draw = MersenneTwister(seed)
    draw.shuffle(list(range(size)))
    for _ in range(times):
        draw.shuffle(list(range(again)))
    return draw.random.getstate()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayPlan:
    """The parameters that determine a run's draws."""

    scenario: Scenario
    performance: bool
    samples: int
    """Samples to draw from: those in memory for a performance run, all for an accuracy run."""
    samples_in_memory: int
    """Samples in memory at once."""
    per_query: int
    queries: int
    """Number of generated queries."""
    least_queries: int
    rate: float
    """Queries/s, as printed in the log: six digits."""
    duration_ms: float
    """Duration for which queries are generated."""
    qsl_seed: int
    sample_seed: int
    schedule_seed: int
    log_seed: int
    equal_issue: bool = False
    """Each sample is issued equally often, in whole rounds: sample_concatenate_permutation."""
    generator: Callable[[int], MersenneTwister] = MersenneTwister
    """The library's draws in an accuracy run."""

    def replay_loaded_sets(self) -> list[list[int]]:
        """Draw the sets that are loaded one after another; MultiStream's repeat their first
        samples, so that no query runs past the end.
        """
        order = generate_shuffled_order(self.qsl_seed, self.samples, self.generator)
        padding = 0
        if self.scenario is Scenario.MULTI_STREAM:
            padding = self.per_query - 1
        sets = [
            order[first : first + self.samples_in_memory]
            for first in range(0, self.samples, self.samples_in_memory)
        ]
        return [[*each, *islice(cycle(each), padding)] for each in sets]

    def replay_issued_samples(self, loaded: Sequence[list[int]]) -> Iterator[int]:
        """Draw the sample of each sequence number, in order."""
        if self.performance:
            yield from self.replay_performance_samples(loaded[0])
        else:
            for each in loaded:
                yield from self.replay_accuracy_order(each)

    def replay_accuracy_order(self, loaded: list[int]) -> Iterator[int]:
        """Draw the order in which an accuracy run issues the loaded samples; each set starts from
        the same seed.
        """
        if self.equal_issue and self.scenario is not Scenario.MULTI_STREAM:
            yield from self.replay_equal_issue_order(loaded)
            return
        if self.scenario is Scenario.OFFLINE:
            yield from loaded
            return
        stride = 1
        if self.scenario is Scenario.MULTI_STREAM:
            stride = self.per_query
        end = len(loaded) - (stride - 1)
        starts = len(range(0, end, stride))
        for number in generate_shuffled_order(self.sample_seed, starts, self.generator):
            yield from loaded[number * stride : number * stride + stride]

    def replay_equal_issue_order(self, loaded: list[int]) -> list[int]:
        """Draw the order of an accuracy run that issues each sample equally often: LoadGen first
        shuffles for accuracy and for unique samples, then once for the only round. Offline shuffles
        the samples after that; Server and SingleStream issue them in the round's order. MultiStream
        draws as if the setting were off.

        Source: mlcommons/inference, loadgen 4.1 to 6.0, loadgen.cc, GenerateQueries; the order of
        the draws was confirmed by published accuracy logs of v4.1 to v6.0.
        """
        draw = self.generator(self.sample_seed)
        for _ in range(2):
            draw.shuffle(list(range(len(loaded))))
        order = draw.shuffle(list(range(len(loaded))))
        if self.scenario is Scenario.OFFLINE:
            return draw.shuffle(list(loaded))
        return [loaded[number] for number in order]

    def replay_equal_issue_rounds(self, loaded: list[int]) -> Iterator[int]:
        """Draw the samples that a performance run with equal counts issues, endlessly: LoadGen
        shuffles for unique samples, then once for each round that the least number of queries
        needs. Offline then shuffles the samples anew for each round that it issues; the others
        issue the drawn rounds, and begin again behind the last one.

        Source: mlcommons/inference, loadgen 6.0, loadgen.cc, GenerateQueries and
        SampleDistributionEqualIssue; confirmed by runs of LoadGen 6.0.17.
        """
        draw = MersenneTwister(self.sample_seed)
        order = list(range(len(loaded)))
        draw.shuffle(list(order))
        drawn: list[int] = []
        for _ in range(0, self.least_queries, len(loaded)):
            order = draw.shuffle(list(order))
            drawn += order
        while True:
            if self.scenario is Scenario.OFFLINE:
                yield from draw.shuffle(list(loaded))
            else:
                yield from (loaded[number] for number in drawn)

    def replay_performance_samples(self, loaded: list[int]) -> Iterator[int]:
        """Draw the samples that a performance run issues, endlessly."""
        if self.equal_issue and self.scenario is not Scenario.MULTI_STREAM:
            yield from self.replay_equal_issue_rounds(loaded)
        if self.scenario is Scenario.OFFLINE:
            while True:
                yield from loaded
        stride = 1
        if self.scenario is Scenario.MULTI_STREAM:
            stride = self.per_query
        end = len(loaded) - (stride - 1)
        draw = MersenneTwister(self.sample_seed)
        # LoadGen draws for unique samples and for equal issue counts in any case: both are drawn
        # and discarded
        rounds = len(range(0, self.least_queries, len(loaded)))
        draw.random.setstate(
            compute_state_after_shuffles(
                self.sample_seed, len(range(0, end, stride)), len(loaded), rounds
            )
        )
        while True:
            first = draw.generate_below(end)
            yield from loaded[first : first + stride]

    def replay_due_ns(self) -> Iterator[int]:
        """Draw when each query is due; Server's gaps are exponential, the others' constant. LoadGen
        truncates each to whole nanoseconds.
        """
        draw, due = MersenneTwister(self.schedule_seed), 0
        while True:
            yield due
            if self.scenario is Scenario.SERVER:
                due += int(-math.log(1.0 - draw.generate_real()) / self.rate * NS_PER_S)
            else:
                due += self.period_ns

    @property
    def period_ns(self) -> int:
        """Return the gap between two queries in a scenario without random gaps."""
        return int(NS_PER_S / self.rate)

    @property
    def least_addition(self) -> int:
        """Return how many queries are generated at least in addition to others: whole rounds where
        samples are issued equally often.
        """
        equal = self.equal_issue and self.scenario is not Scenario.MULTI_STREAM
        if equal and self.scenario is not Scenario.OFFLINE:
            return self.samples
        return 1

    def compute_last_due_ns(self) -> tuple[int, int, int]:
        """Return the due times of the last query before the least addition, of the last one, and
        of one more; -1 for a missing query.
        """
        earlier = self.queries - 1 - self.least_addition
        if self.scenario is Scenario.SERVER:
            due_ns = take_first_values(self.replay_due_ns(), self.queries + 1)
            return due_ns[earlier] if earlier >= 0 else -1, due_ns[-2], due_ns[-1]
        return (
            earlier * self.period_ns if earlier >= 0 else -1,
            (self.queries - 1) * self.period_ns,
            self.queries * self.period_ns,
        )

    def compute_generation_end_ns(self) -> float:
        """Return the time at which the generation of queries ends."""
        return (
            self.duration_ms
            * 1e6
            * (1 if self.scenario is Scenario.SERVER else GENERATED_DURATION_FACTOR)
        )

    def replay_log_chances(self, count: int) -> Any:
        """Draw, for each of the first `count` samples, the number compared with the share of
        answers to log: an array (count,).
        """
        import numpy

        values = (
            MersenneTwister(MT19937_DEFAULT_SEED).generate_reals(count)
            + MersenneTwister(self.log_seed).generate_real()
        )
        return numpy.where(values < 1.0, values, values - 1.0)


def take_first_values(values: Iterator[int], count: int) -> list[int]:
    """Return the first `count` values."""
    return list(islice(values, count))

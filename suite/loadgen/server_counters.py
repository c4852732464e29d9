"""What servers count themselves: counters that they publish for Prometheus, read before and after a
run. They are the servers' word, beside what podium counts.

Names: vLLM 0.32 (vllm/v1/metrics/loggers.py, vllm/v1/spec_decode/metrics.py), SGLang (docs,
production metrics) and llama.cpp (tools/server/README.md, GET /metrics).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

MAX_COUNT_DIFFERENCE: Final = 0.01
"""House rule: of generated tokens, between the servers' count and LoadGen's, relative to the
latter. A server counts all its clients.
"""


class Counted(StrEnum):
    """What the counters of several programs mean."""

    GENERATED = "generated tokens"
    PROMPT = "prompt tokens"
    PREFIX_QUERIES = "prefix-cache queries"
    PREFIX_HITS = "prefix-cache hits"
    PREEMPTIONS = "preemptions"
    DRAFTED = "drafts"
    ACCEPTED = "accepted drafts"


COUNTER_NAMES: Final[Mapping[str, Counted]] = {
    "vllm:generation_tokens_total": Counted.GENERATED,
    "vllm:prompt_tokens_total": Counted.PROMPT,
    "vllm:prefix_cache_queries_total": Counted.PREFIX_QUERIES,
    "vllm:prefix_cache_hits_total": Counted.PREFIX_HITS,
    "vllm:num_preemptions_total": Counted.PREEMPTIONS,
    "vllm:spec_decode_num_draft_tokens_total": Counted.DRAFTED,
    "vllm:spec_decode_num_accepted_tokens_total": Counted.ACCEPTED,
    "sglang:generation_tokens_total": Counted.GENERATED,
    "sglang:prompt_tokens_total": Counted.PROMPT,
    "sglang:cached_tokens_total": Counted.PREFIX_HITS,
    "llamacpp:tokens_predicted_total": Counted.GENERATED,
    "llamacpp:prompt_tokens_total": Counted.PROMPT,
    "llamacpp:spec_decode_num_draft_tokens_total": Counted.DRAFTED,
    "llamacpp:spec_decode_num_accepted_tokens_total": Counted.ACCEPTED,
}
"""A counter -> what it counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerCounters:
    """The counters of one server around a run, by the names that it gives them."""

    endpoint: str
    before: Mapping[str, int]
    after: Mapping[str, int]

    def list_fallen(self) -> list[str]:
        """List the counters that fell or went away: the server began anew."""
        return sorted(
            name for name, count in self.before.items() if self.after.get(name, -1) < count
        )


def sum_counters(counters: Iterable[ServerCounters]) -> Mapping[Counted, int]:
    """Return by how much all servers' counters rose; without what fell or what a server lacks."""
    rises = [compute_rises(each) for each in counters]
    shared = set.intersection(*map(set, rises)) if rises else set[Counted]()
    return {what: sum(each[what] for each in rises) for what in Counted if what in shared}


def compute_rises(counters: ServerCounters) -> Mapping[Counted, int]:
    """Return by how much a server's counters rose. A counter that was not there before is one that
    nothing had raised.
    """
    found: dict[Counted, int] = {}
    for name, what in COUNTER_NAMES.items():
        rise = counters.after.get(name, -1) - counters.before.get(name, 0)
        if name in counters.after and rise >= 0:
            found[what] = found.get(what, 0) + rise
    return found


def is_count_alike(stated: int, own: int) -> bool:
    """Return whether a server's count of generated tokens is LoadGen's, within a per cent."""
    return abs(stated - own) <= MAX_COUNT_DIFFERENCE * own


def list_counted_words(
    counters: Sequence[ServerCounters], own: Mapping[Counted, int | None]
) -> list[tuple[str, str, str]]:
    """List what servers counted: a name, their count or share, and podium's count; "" where podium
    has none.
    """
    found = sum_counters(counters)
    lines = [
        (str(what), f"{found[what]:,}", format_own_count(own.get(what)))
        for what in (Counted.GENERATED, Counted.PROMPT, Counted.PREEMPTIONS)
        if what in found
    ]
    wholes = {
        Counted.PREFIX_HITS: found.get(Counted.PREFIX_QUERIES) or found.get(Counted.PROMPT),
        Counted.ACCEPTED: found.get(Counted.DRAFTED),
    }
    for part, whole in wholes.items():
        if part in found and whole:
            told = f"{found[part]:,} of {whole:,} ({found[part] / whole:.1%})"
            lines.append((str(part), told, format_own_count(own.get(part))))
    return lines


def format_own_count(count: int | None) -> str:
    """Format podium's count; "" for none."""
    return "" if count is None else f"{count:,}"

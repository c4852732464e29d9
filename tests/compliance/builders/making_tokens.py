"""Makes what LoadGen and podium write of generated answers: settings and results of tokens in
LoadGen's files, and the records of queries and tokens. The first token of an answer comes after
half of its latency.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy

from compliance.loadgen_replay import take_first_values
from suite.files.layout import QUERY_RECORD_FILE, TOKEN_RECORD_FILE
from suite.loadgen.headline import FIRST_TOKEN_KEY, OUTPUT_TOKEN_KEY
from suite.loadgen.percentiles import compute_percentile_index
from suite.loadgen.query_record import QUERY_RECORD_FIELDS
from suite.loadgen.scenario import Scenario
from suite.loadgen.token_record import TOKEN_BYTES

if TYPE_CHECKING:
    from making import Load

LOGGED_SHARES: Final = (50.0, 90.0, 95.0, 97.0, 99.0, 99.9)
"""The percentiles that LoadGen writes."""
UNBOUNDED_NS: Final = 1 << 62
"""LoadGen's bounds of tokens where none is set."""
STRIDE: Final = 331
"""Latencies are measured in no order: late ones all over the run."""
FIRST_EXTREME_KEY: Final = "result_first_token_{}_latency_ns"
FURTHER_EXTREME_KEY: Final = "result_time_to_output_token_{}"
"""Keys of the least, the largest and the mean."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GeneratedAnswer:
    """One answer of a performance run."""

    sample: int
    began_ns: int
    """When LoadGen's clock starts for it."""
    took_ns: int
    tokens: int

    @property
    def first_ns(self) -> int:
        """From the start to the first token."""
        return self.took_ns // 2

    @property
    def per_token_ns(self) -> int:
        """For each further token."""
        return (self.took_ns - self.first_ns) // (self.tokens - 1)


@lru_cache
def list_generated_answers(load: "Load") -> Sequence[GeneratedAnswer]:
    """The answers of a performance run in the order of issue: Server's queries are issued when they
    are due, SingleStream's when the one before is done, Offline's all at once.
    """
    per_query = load.samples_per_query
    took = [load.latencies[place * STRIDE % load.queries] for place in range(load.queries)]
    began = [0, *accumulate(took)]
    if load.scenario is Scenario.SERVER:
        began = take_first_values(load.plan(performance=True).replay_due_ns(), load.queries)
    return [
        GeneratedAnswer(
            sample=sample,
            began_ns=began[place // per_query],
            took_ns=took[place // per_query],
            tokens=len(load.subject.answers[sample]) // TOKEN_BYTES,
        )
        for place, sample in enumerate(load.issued())
    ]


def write_token_records(folder: Path, load: "Load") -> None:
    """Write podium's records of queries and tokens."""
    answers = list_generated_answers(load)
    queries = numpy.zeros(len(answers), list(QUERY_RECORD_FIELDS))
    queries["issued_ns"] = [each.began_ns for each in answers]
    queries["done_ns"] = [each.began_ns + each.took_ns for each in answers]
    queries["samples"] = 1
    numpy.save(folder / QUERY_RECORD_FILE, queries)
    rows = [
        (each.sample, each.began_ns + each.first_ns, each.began_ns + each.took_ns, each.tokens)
        for each in answers
    ]
    numpy.save(folder / TOKEN_RECORD_FILE, numpy.array(rows, "<i8"))


def token_settings(load: "Load") -> dict[str, Any]:
    """What LoadGen is asked for; Offline's log has no bounds."""
    bounds = {
        "server_ttft_latency": load.row.first_token_ns or UNBOUNDED_NS,
        "server_tpot_latency": load.row.per_token_ns or UNBOUNDED_NS,
    }
    return {"use_token_latencies": True, **({} if load.scenario is Scenario.OFFLINE else bounds)}


def token_latencies(load: "Load") -> dict[str, list[int]]:
    """The sorted latencies of first and of further tokens, under LoadGen's names."""
    answers = list_generated_answers(load)
    return {
        "ttft": sorted(each.first_ns for each in answers),
        "tpot": sorted(each.per_token_ns for each in answers),
    }


def token_results(load: "Load", found: Mapping[str, Any], span_ms: float) -> dict[str, Any]:
    """LoadGen's results of tokens: over the spans by which it divides answers, too."""
    answers = list_generated_answers(load)
    tokens = sum(each.tokens for each in answers)
    if load.scenario is Scenario.OFFLINE:
        seconds = load.latencies[0] / 1e9
        return {"result_tokens_per_second": rounded(tokens / seconds)}
    told: dict[str, Any] = {}
    for values, form, extreme in zip(
        token_latencies(load).values(),
        (FIRST_TOKEN_KEY, OUTPUT_TOKEN_KEY),
        (FIRST_EXTREME_KEY, FURTHER_EXTREME_KEY),
        strict=True,
    ):
        told |= {
            extreme.format("min"): values[0],
            extreme.format("max"): values[-1],
            extreme.format("mean"): sum(values) // len(values),
        }
        told |= {
            form.format(share): values[compute_percentile_index(len(values), share)]
            for share in LOGGED_SHARES
        }
    speed = rounded(tokens * 1e3 / span_ms)
    with_overhead = speed
    if load.scenario is Scenario.SINGLE_STREAM:
        with_overhead = rounded(tokens * 1e3 / issued_ms(load, span_ms))
        without = found["result_qps_without_loadgen_overhead"] * tokens / len(answers) / 1e9
        told |= {"result_token_throughput": rounded(without)}
    told |= {"result_token_throughput_with_loadgen_overhead": with_overhead}
    return told | {"result_completed_tokens_per_second": speed}


def issued_ms(load: "Load", span_ms: float) -> float:
    """Milliseconds until SingleStream's last query is issued."""
    return span_ms - load.latencies[-1] / 1e6


def rounded(value: float) -> float:
    """As the detail log prints it."""
    return float(f"{value:.6g}")


def token_fields(load: "Load", answer: bytes) -> str:
    """What LoadGen adds to an answer in its accuracy log: the first token, but in Offline, and how
    many there are; nothing where it does not measure tokens.
    """
    if not load.measures_tokens:
        return ""
    first = f', "token_data" : "{answer[:TOKEN_BYTES].hex().upper()}"'
    count = f', "token_count" : {len(answer) // TOKEN_BYTES}'
    return count if load.scenario is Scenario.OFFLINE else first + count


def token_headline(load: "Load", facts: Mapping[str, Any]) -> str:
    """The line of the summary that says the result in tokens; none where they are not measured."""
    if not load.measures_tokens:
        return ""
    if load.scenario is Scenario.SERVER:
        speed = facts["result_completed_tokens_per_second"]
        return f"Completed tokens per second: {speed:.2f}\n"
    if load.scenario is Scenario.OFFLINE:
        return f"Tokens per second: {facts['result_tokens_per_second']:g}\n"
    percentile = load.row.percentile
    first_ns = facts[FIRST_TOKEN_KEY.format(percentile)]
    return f"{percentile:.1f}th first token percentile latency (ns) : {first_ns}\n"


def token_statistics(load: "Load", facts: Mapping[str, Any]) -> str:
    """The summary's statistics of tokens; Offline has none."""
    if not load.measures_tokens or load.scenario is Scenario.OFFLINE:
        return ""
    speed = facts["result_token_throughput_with_loadgen_overhead"]
    text = f"\nCompleted tokens per second                 : {speed:.2f}\n"
    if load.scenario is Scenario.SINGLE_STREAM:
        without = 1e9 * facts["result_token_throughput"]
        text = (
            f"\nTPS w/ loadgen overhead         : {speed:.2f}\n"
            f"TPS w/o loadgen overhead        : {without:.2f}\n"
        )
    for title, printed, form, extreme in (
        ("First Token latency", "first token latency", FIRST_TOKEN_KEY, FIRST_EXTREME_KEY),
        ("Time per Output Token", "time to output token", OUTPUT_TOKEN_KEY, FURTHER_EXTREME_KEY),
    ):
        for name in ("Min", "Max", "Mean"):
            value = facts[extreme.format(name.lower())]
            text += f"{name} {title} (ns)                : {value}\n"
        for share in LOGGED_SHARES:
            text += f"{share:.2f} percentile {printed} (ns)   : {facts[form.format(share)]}\n"
        text += "\n"
    return text


def token_parameters(facts: Mapping[str, Any]) -> dict[str, int]:
    """The bounds of tokens among the summary's parameters."""
    return {
        f"{name} (ns)": facts.get(f"requested_server_{name}", UNBOUNDED_NS)
        for name in ("ttft_latency", "tpot_latency")
    }

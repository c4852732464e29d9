"""Examples of the rules about generated answers: Server and SingleStream with tokens.npy, each
answer of two to four tokens.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy
from making import LOADS, Load, due_ns, line, write_run
from making_rates import issued
from spoiling import SINGLE, SRV, Builder, first_answer, set_value, then

from compliance.loadgen_replay import take_first_values
from suite.files.layout import ACCURACY_LOG, DETAIL_LOG, QUERY_RECORD_FILE, TOKEN_RECORD_FILE
from suite.loadgen.headline import FIRST_TOKEN_KEY, OUTPUT_TOKEN_KEY, REQUESTED_TOKENS_KEY
from suite.loadgen.percentiles import select_latency_ns
from suite.loadgen.query_record import QUERY_RECORD_FIELDS
from suite.loadgen.scenario import Scenario
from suite.loadgen.token_record import TOKEN_RECORD_FIELDS

Table = numpy.ndarray[Any, Any]
SHARES: Final = (50.0, 90.0, 95.0, 97.0, 99.0, 99.9)
BOUND_NS: Final = 1_000_000_000
"""Of the first token and of each further one."""
LOG, TOKENS = f"**/{DETAIL_LOG}", f"**/{TOKEN_RECORD_FILE}"


def write_generated(folder: Path, scenario: Scenario) -> None:
    """One run with the records of its queries and tokens, and what LoadGen says of the tokens: the
    first comes after half of a query's latency.
    """
    load = LOADS[scenario]
    place = folder / scenario.folder / "performance" / "run_1"
    write_run(place, load, "performance")
    queries = list_queries(load)
    numpy.save(place / QUERY_RECORD_FILE, queries)
    begun, ended = queries["issued_ns"], queries["done_ns"]
    table = numpy.empty((len(queries), len(TOKEN_RECORD_FIELDS)), "<i8")
    counts = 2 + numpy.arange(len(queries)) % 3
    columns = (numpy.arange(len(queries)) % load.samples, (begun + ended) // 2, ended, counts)
    for column, values in enumerate(columns):
        table[:, column] = values
    numpy.save(place / TOKEN_RECORD_FILE, table)
    insert_facts(place / DETAIL_LOG, "effective_samples_per_query", asked())
    insert_facts(place / DETAIL_LOG, "result_query_count", measured(load, begun, table))


def list_queries(load: Load) -> Table:
    """The record of queries with latencies in no order: Server's are issued when they are due,
    SingleStream's when the one before is done.
    """
    took = issued(load)
    rows = numpy.zeros(load.queries, list(QUERY_RECORD_FIELDS))
    if load.scenario is Scenario.SERVER:
        rows["issued_ns"] = take_first_values(
            load.plan(performance=True).replay_due_ns(), load.queries
        )
    else:
        rows["issued_ns"] = numpy.cumsum(took) - took
    rows["done_ns"] = rows["issued_ns"] + took
    rows["samples"] = 1
    return rows


def asked() -> dict[str, Any]:
    """LoadGen's settings of tokens."""
    return {
        "requested_server_ttft_latency": BOUND_NS,
        "requested_server_tpot_latency": BOUND_NS,
    }


def measured(load: Load, begun: Table, table: Table) -> dict[str, Any]:
    """LoadGen's results of tokens."""
    _, first, last, counts = table.T
    facts = list_percentiles(FIRST_TOKEN_KEY, first - begun)
    facts |= {
        f"result_first_token_{name}_latency_ns": int(value)
        for name, value in (("min", (first - begun).min()), ("max", (first - begun).max()))
    }
    facts |= list_percentiles(OUTPUT_TOKEN_KEY, (last - first) // (counts - 1))
    if load.scenario is Scenario.SERVER:
        due_s = due_ns(load.plan(performance=True), load.queries - 1) / 1e9
        span_s = due_s + load.latencies[-1] / 1e9
        answers = (load.queries - 1) / span_s
        facts["result_completed_tokens_per_second"] = answers * int(counts.sum()) / len(table)
    return facts


def list_percentiles(form: str, values: Table) -> dict[str, int]:
    """Percentiles under LoadGen's keys."""
    ordered: Sequence[int] = sorted(values.tolist())
    return {form.format(share): select_latency_ns(ordered, share) for share in SHARES}


def insert_facts(path: Path, behind: str, facts: Mapping[str, Any]) -> None:
    """Insert lines of a detail log behind that of a key, with its time."""
    lines = path.read_text().splitlines(keepends=True)
    at = next(place for place, each in enumerate(lines) if f'"key": "{behind}"' in each)
    time_ms = json.loads(lines[at].removeprefix(":::MLLOG "))["time_ms"]
    added = [line(key, value, time_ms, {}) for key, value in facts.items()]
    path.write_text("".join([*lines[: at + 1], *added, *lines[at + 1 :]]))


def server(folder: Path) -> None:
    """A Server run that keeps all rules."""
    write_generated(folder, SRV)


def single_stream(folder: Path) -> None:
    """A SingleStream run that keeps all rules."""
    write_generated(folder, SINGLE)


def edit_table(change: Callable[[Table], Table]) -> Callable[[Path], None]:
    """Change the rows of tokens.npy."""
    return lambda path: numpy.save(path, change(numpy.load(path)))


def later(table: Table) -> Table:
    """First tokens that come 10 ms before the last ones, whatever LoadGen measured."""
    table[:, 1] = table[:, 2] - 10_000_000 * (table[:, 3] - 1)
    return table


def measured_too_late(path: Path) -> None:
    """A first token after the bound, as LoadGen measured it."""
    set_value(path, FIRST_TOKEN_KEY.format(99.0), BOUND_NS + 1)


def measuring(folder: Path) -> None:
    """A Server run that says that it measures tokens; its logged answers have one token each, and
    tokens.npy states two to four.
    """
    server(folder)
    insert_facts(
        next(folder.rglob(DETAIL_LOG)),
        "requested_server_ttft_latency",
        {REQUESTED_TOKENS_KEY: True},
    )


def padded_entry(folder: Path) -> None:
    """An accuracy run whose answers have one token each, and a performance run whose answers have
    two to four.
    """
    load = LOADS[SRV]
    write_generated(folder, SRV)
    write_run(folder / SRV.folder / "accuracy", load, "accuracy")


BASES: Final[Mapping[str, Builder]] = {
    "generated": server,
    "generated-single-stream": single_stream,
}
KINDS: Final = {"tokens": "generated"}
VALID: Final[Mapping[str, str | Builder]] = {"tokens.times": "generated-single-stream"}
INVALID: Final[Mapping[str, Builder]] = {
    "tokens.settings": then(
        server,
        LOG,
        lambda path: insert_facts(
            path, "requested_server_ttft_latency", {REQUESTED_TOKENS_KEY: True}
        ),
    ),
    "tokens.bounds": then(server, LOG, measured_too_late),
    "tokens.logged": then(
        server,
        f"**/{ACCURACY_LOG}",
        first_answer(lambda line: line.replace(" }", ', "token_count" : 2 }')),
    ),
    "tokens.lengths": measuring,
    "tokens.total": padded_entry,
    "tokens.count": then(server, TOKENS, edit_table(lambda table: table[:-1])),
    "tokens.times": then(single_stream, TOKENS, edit_table(later)),
}

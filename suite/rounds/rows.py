"""Rows of published rounds: one file per benchmark, `rows/<benchmark>.toml`; each of its rows lists
the rounds in which it applies.

    [[training]]
    rounds = ["training-v2.0", "training-v2.1"]
    ...
    [[training.only]]                  # exceptions: they replace what the row says, in some of its
    rounds
    rounds = ["training-v2.1"]
    runs = { value = 5, source = "..." }
    [[training.constraints]]           # may list rounds of its own, too
    rounds = ["training-v2.1"]

They lie beside the rounds' own files, which name their benchmarks; a benchmark that only one round
has may stand in its file. Only the rows of the requested round are parsed.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Final

from suite.errors import RequestError
from suite.rounds.load import merge_round_tables, parse_cached_toml, strip_sources

ROW_HEADS: Final = re.compile(r"^(?=\[\[[a-z-]+\]\])", re.MULTILINE)
"""Start of a row: a table without dots in its name."""


def merge_round_rows(
    name: str, texts: Iterable[str], package: str
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the tables of a published round with its rows, without their sources, and the sources
    by dotted path. `package` has the folder `rows`.
    """
    merged, sources = merge_round_tables(name, texts)
    kind = merged["round"].get("kind", "")
    for benchmark in merged["round"].get("rows", ()):
        if benchmark in merged:
            raise RequestError(f"round {name}: '{benchmark}' is defined twice")
        table = find_benchmark_row(benchmark, kind, name, package)
        if table is None:
            raise RequestError(f"round {name}: rows/{benchmark}.toml has no row of it")
        merged[benchmark] = strip_sources(table, benchmark, sources)
    return merged, sources


def find_benchmark_row(
    benchmark: str, kind: str, name: str, package: str
) -> Mapping[str, Any] | None:
    """Return a benchmark's row in a round, exceptions applied; None if it has none."""
    for piece in read_row_texts(benchmark, package):
        if piece.startswith(f"[[{kind}]]") and f'"{name}"' in piece:
            row = parse_cached_toml(piece)[kind][0]
            if name in row["rounds"]:
                return apply_row_exceptions(row, name)
    return None


@cache
def read_row_texts(benchmark: str, package: str) -> tuple[str, ...]:
    """Read a benchmark's file and split it into rows."""
    try:
        text = files(package).joinpath("rows", f"{benchmark}.toml").read_text("utf-8")
        return tuple(ROW_HEADS.split(text))
    except FileNotFoundError:
        return ()


def apply_row_exceptions(row: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Apply a row's exceptions for a round, and keep the constraints that apply in it."""
    made = {
        key: value for key, value in row.items() if key not in ("rounds", "only", "constraints")
    }
    for other in row.get("only", ()):
        if name in other["rounds"]:
            made |= {key: value for key, value in other.items() if key != "rounds"}
    if "constraints" in row:
        return made | {
            "constraints": list(select_round_constraints(row.get("constraints", ()), name))
        }
    return made


def select_round_constraints(
    constraints: Iterable[Mapping[str, Any]], name: str
) -> Iterator[Mapping[str, Any]]:
    """Yield the constraints of a round."""
    for constraint in constraints:
        if name in constraint.get("rounds", (name,)):
            yield {key: value for key, value in constraint.items() if key != "rounds"}

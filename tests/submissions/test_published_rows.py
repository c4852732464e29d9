"""Published rows: what podium ships holds, what a user brings is checked, and the command prints
it.
"""

import csv
import io
import json
import re
import subprocess
import sys
import tomllib
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from corpus import CORPUS, PUBLISHED
from recomputed_rows import collect_round_rows, format_rows, read_table_rows

from submissions.commands.published import published
from submissions.publications import format_published_table
from submissions.published_rows import (
    PUBLISHED_COLUMNS,
    PUBLISHED_ROWS_FOLDER,
    list_published_files,
    parse_published_rows,
    read_published_rows,
    read_workload_rows,
    select_rows_of_kind,
)
from suite import registry
from suite.errors import RequestError
from suite.files.layout import fold_name
from suite.rounds.compatibility import (
    find_podium_workload,
    has_comparable_rounds,
    read_compatibility_table,
)

ROW = {
    "id": "x/1",
    "round": "training-v0.7",
    "half": "training",
    "division": "closed",
    "org": "acme",
    "system": "box",
    "accelerator": "Card",
    "accelerators": "8",
    "nodes": "1",
    "workload": "resnet50",
    "scenario": "",
    "metric": "time_to_train",
    "unit": "minutes",
    "value": "10.0333",
    "runs": "9.0000 10.1000 10.0000 10.0000 -",
    "kind": "recomputed",
    "source": "repository@commit:path",
    "note": "",
}


def text_of(*rows: dict[str, str]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, PUBLISHED_COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def invoked(*arguments: str) -> str:
    return CliRunner().invoke(published, arguments, catch_exceptions=False).stdout


# ---- what podium ships ----


def test_every_row_that_is_shipped_holds() -> None:
    """Reading checks sources, units, ids and that runs give their value."""
    assert list_published_files() == (
        "documents",
        "inference-v0.5",
        "inference-v0.7",
        "inference-v4.1",
        "inference-v5.1",
        "inference-v6.0",
        "training-v0.5",
        "training-v0.6",
        "training-v0.7",
        "training-v1.0",
        "training-v5.1",
    )
    rows = [row for name in list_published_files() for row in read_published_rows(name)]
    assert len(rows) == len({row.origin.id for row in rows}) == 1305
    assert {row.workload for row in rows} >= {"resnet50", "ssd", "maskrcnn", "gnmt", "transformer"}
    assert {row.round for row in rows if row.origin.kind == "reported"} == {
        "documents",
        "inference-v5.1",
        "inference-v6.0",
    }
    assert all(row.runs for row in rows if row.origin.kind == "recomputed")
    since_v1 = {name for name in list_published_files() if not name.endswith(("0.5", "0.6", "0.7"))}
    assert all(
        "@" in row.origin.document
        for row in rows
        if row.origin.kind == "recomputed" and row.round not in since_v1
    )
    assert all(
        row.origin.document.startswith(f"mlcommons/{row.half}_results_v")
        for row in rows
        if row.round in since_v1 - {"documents"}
    )


@pytest.mark.parametrize("workload", ["resnet50", "ResNet50", "ssd", "fake"])
def test_rows_of_a_workload_are_those_among_all(workload: str) -> None:
    """A report that reads fewer rows must not show fewer."""
    rows = [row for name in list_published_files() for row in read_published_rows(name)]
    kinds = dict.fromkeys((row.half, row.scenario or None, row.metric) for row in rows)
    assert all(
        select_rows_of_kind(read_workload_rows([workload]), workload, *kind)
        == select_rows_of_kind(rows, workload, *kind)
        for kind in kinds
    )
    assert bool(read_workload_rows([workload])) == (workload != "fake")


@pytest.mark.parametrize(
    ("workload", "system", "minutes"),
    [
        ("resnet50", "dgx2_ngc19.05_mxnet", 57.87),
        ("resnet50", "dgx2h_ngc19.05_mxnet", 52.74),
        ("resnet50", "dgx1_ngc19.05_mxnet", 115.22),
    ],
)
def test_known_figures_of_v06_are_there(workload: str, system: str, minutes: float) -> None:
    """The document that says 53 minutes of a DGX-2 means the DGX-2H: its row says so."""
    (row,) = [
        row
        for row in read_published_rows("training-v0.6")
        if (row.workload, row.system) == (workload, system)
    ]
    assert row.value == pytest.approx(minutes, abs=0.005)
    (document,) = [
        row
        for row in read_published_rows("documents")
        if row.origin.id.startswith("documents/S1/dgx-2/")
    ]
    assert document.value == 53 and "doubtful: 52.74 min is the DGX-2H" in document.origin.note


def test_what_is_doubtful_says_why() -> None:
    """A note that only says doubtful helps nobody."""
    doubtful = [
        row.origin.note for row in read_published_rows("documents") if "doubtful" in row.origin.note
    ]
    assert len(doubtful) == 42 and all(
        len(note.partition("doubtful: ")[2]) > 10 for note in doubtful
    )


@pytest.mark.slow
@pytest.mark.corpus
def test_rows_since_v1_are_what_the_logs_and_tables_at_hand_give() -> None:
    """A row that nobody can compute again is hearsay."""
    made = collect_round_rows(PUBLISHED, PUBLISHED / "expected")
    assert sorted(made) == [
        "inference-v4.1",
        "inference-v5.1",
        "inference-v6.0",
        "training-v1.0",
        "training-v5.1",
    ]
    for name, rows in made.items():
        shipped = (PUBLISHED_ROWS_FOLDER / f"{name}.csv").read_text("utf-8")
        assert format_rows(rows, name) == shipped, name


@pytest.mark.corpus
def test_recomputed_rows_are_those_of_mlcommons_tables() -> None:
    """The tables have six digits, or whole tokens per second."""
    beside = 0
    for version in ("v5.1", "v6.0"):
        table = PUBLISHED / "expected" / f"inference_{version}_published.json"
        reported = {fold_name(row["id"]): row for row in read_table_rows(version, table)}
        for row in read_published_rows(f"inference-{version}"):
            told = reported.get(fold_name(row.origin.id))
            if told and row.origin.kind == "recomputed":
                assert row.value == pytest.approx(float(told["value"]), rel=1e-5), row.origin.id
                assert (row.metric, row.unit) == (told["metric"], told["unit"]), row.origin.id
                assert row.origin.note.endswith(told["source"].rpartition(" ")[2])
                beside += 1
    assert beside == 11


@pytest.mark.slow
@pytest.mark.corpus
def test_rows_are_what_podium_scores() -> None:
    """Of every set whose logs are at hand, to the digits that the row has."""
    from submissions.score.score import score_paths

    places = {
        "training-v0.6": "training_v0.6",
        "training-v0.7": "training_v0.7",
        "inference-v0.5": "inference_v0.5",
    }
    for round_name, folder in places.items():
        scored = score_paths([CORPUS / folder], [])
        found = {
            (
                row.org,
                row.system,
                find_podium_workload("inference" if row.scenario else "training", row.workload),
                row.scenario,
            ): row
            for row in scored
        }
        rows = [
            row
            for row in read_published_rows(round_name)
            if (row.org, row.system, row.workload, row.scenario) in found
        ]
        assert len(rows) >= 10, round_name
        for row in rows:
            told = found[row.org, row.system, row.workload, row.scenario]
            assert (told.metric, told.unit) == (row.metric, row.unit), row.origin.id
            assert told.value == pytest.approx(row.value, rel=1e-5, abs=1e-4), row.origin.id


# ---- what a user brings ----


def test_a_users_row_is_read() -> None:
    """As it stands."""
    (row,) = parse_published_rows(text_of(ROW), "x.csv")
    assert row.runs == (9.0, 10.1, 10.0, 10.0, None) and (
        row.accelerators,
        row.nodes,
        row.value,
    ) == (8, 1, 10.0333)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"source": " "}, "no source"),
        ({"id": ""}, "no id"),
        ({"value": "10.04"}, "value 10.04, but its runs give 10.03333"),
        ({"runs": "9.0 10.1 - 10.0 -"}, "its runs give none"),
        ({"runs": ""}, "recomputed, but without runs"),
        ({"runs": "nine"}, "'nine' is not a number above 0"),
        ({"runs": "nan nan nan"}, "'nan' is not"),
        ({"value": "-1"}, "'-1' is not"),
        ({"value": "inf"}, "'inf' is not"),
        ({"value": ""}, "'' is not"),
        ({"value": "1.00e1"}, "its runs give 10.03333"),
        ({"unit": "parsecs"}, "unit parsecs; required: minutes, "),
        ({"half": ""}, "half missing; required: training, inference"),
        ({"kind": "guessed"}, "kind guessed"),
        ({"scenario": "Batch"}, "scenario Batch"),
        ({"convergence_factor": "0.99"}, "convergence_factor 0.99; required: a number above 1"),
        ({"convergence_factor": "much"}, "'much' is not a number above 0"),
        (
            {
                "convergence_factor": "1.01",
                "metric": "samples_per_second",
                "unit": "samples/s",
                "value": "9.0",
                "runs": "9.0 10.1",
            },
            "convergence_factor 1.01; required: a number above 1 for a time to train",
        ),
        ({"accelerators": "many"}, "accelerators many; required: a whole number"),
        ({"nodes": "-1"}, "nodes -1"),
        ({"value": "1e308", "runs": "1e308 1e308"}, "'1e308' is not between 1e-15 and 1e\\+15"),
        ({"value": "1e-320", "runs": "1e-320"}, "'1e-320' is not between"),
        ({"value": "inf", "runs": "inf"}, "'inf' is not between"),
        (
            {
                "metric": "samples_per_second",
                "unit": "samples/s",
                "value": "10.1",
                "runs": "9.0 10.1",
            },
            "its runs give 9",
        ),
        (
            {"metric": "latency_p90", "unit": "ns", "value": "9.0", "runs": "9.0 10.1"},
            "its runs give 10.1",
        ),
    ],
)
def test_a_users_row_that_does_not_hold_is_refused_with_its_line(
    changes: dict[str, str], words: str
) -> None:
    """Nobody is to search 600 lines for it."""
    with pytest.raises(RequestError, match=words) as error:
        parse_published_rows(text_of(ROW | {"id": "x/0"}, ROW | changes), "x.csv")
    assert str(error.value).startswith("x.csv:3: ")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (text_of(ROW, ROW), "x.csv:3: duplicate id x/1"),
        ("", "x.csv:1: columns none; required: id, round"),
        ("id,round\nx,y\n", "x.csv:1: columns id, round; required"),
        (text_of(ROW) + "short,row\n", "x.csv:3: 2 cells; required: 19"),
        (text_of(ROW) + '"' + "x" * 200_000 + '"\n', "x.csv:3: field larger than"),
    ],
)
def test_a_file_that_is_no_such_table_is_refused(text: str, words: str) -> None:
    """With the line that is wrong."""
    with pytest.raises(RequestError, match=words):
        parse_published_rows(text, "x.csv")


def test_a_file_may_lack_the_column_of_factors() -> None:
    """Files from before there was one."""
    text = io.StringIO()
    writer = csv.DictWriter(text, PUBLISHED_COLUMNS[:-1], lineterminator="\n")
    writer.writeheader()
    writer.writerow(ROW)
    (row,) = parse_published_rows(text.getvalue(), "x.csv")
    assert row.convergence is None and row.headline == row.value
    (row,) = parse_published_rows(text_of(ROW | {"convergence_factor": "1.5"}), "x.csv")
    assert row.headline == row.value * 1.5


def test_a_file_is_read_and_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    """A byte order mark is what spreadsheets write."""
    path = tmp_path / "mine.csv"
    path.write_bytes(b"\xef\xbb\xbf" + text_of(ROW).encode())
    assert len(read_published_rows(str(path))) == 1
    path.write_bytes(b"\xff\xfe\0")
    with pytest.raises(RequestError, match="not UTF-8"):
        read_published_rows(str(path))


# ---- the command ----


def test_rows_are_chosen_by_workload_round_and_organisation() -> None:
    """Spelling aside."""
    found = json.loads(
        invoked("ResNet-50", "--round", "training-v0.7", "--org", "google", "--format", "json")
    )
    assert {(row["workload"], row["round"], row["org"]) for row in found["published"]} == {
        ("resnet50", "training-v0.7", "Google")
    }
    assert any("trademarks of MLCommons" in line for line in found["legend"])


def test_rows_can_be_sorted_by_value_the_best_first() -> None:
    """The best are the fewest minutes or nanoseconds, and the most samples; kinds of figures stay
    apart.
    """
    rows = json.loads(invoked("resnet50", "--sort", "value", "--format", "json"))["published"]
    documents = [row["round"] == "documents" for row in rows]
    assert documents == sorted(documents), "figures of documents come last"
    rows = rows[: documents.index(True)]
    kinds = [(row["half"], row["scenario"], row["metric"], row["unit"]) for row in rows]
    assert len(list(groupby(kinds))) == len(set(kinds))
    values = {
        kind: [row["value"] for row, each in zip(rows, kinds, strict=True) if each == kind]
        for kind in kinds
    }
    minutes = values["training", "", "time_to_train", "minutes"]
    assert len(minutes) > 10
    assert minutes == sorted(minutes)
    rates = values["inference", "Offline", "samples_per_second", "samples/s"]
    assert len(rates) > 10
    assert rates == sorted(rates, reverse=True)
    plain = json.loads(invoked("resnet50", "--sort", "round", "--format", "json"))["published"]
    assert plain[: len(rows)] != rows
    every = json.loads(invoked("resnet50", "--format", "json"))["published"]
    assert rows == every[: len(rows)]
    assert sorted(row["id"] for row in plain) == sorted(row["id"] for row in every)


def test_the_table_tells_the_division_of_each_row() -> None:
    """Open rows, which may change model and target, stand between closed ones by value."""
    lines = invoked("resnet50", "--round", "training-v0.7").splitlines()
    head, *rows = (re.split(r"\s{2,}", line) for line in lines[: lines.index("")])
    named = {dict(zip(head, row, strict=False))["division"] for row in rows}
    assert named == {"closed", "open"}
    assert "-" in invoked("gnmt", "--round", "training-v0.5").splitlines()[1].split()


def test_a_number_without_a_unit_has_none() -> None:
    (row,) = (line for line in invoked("--round", "documents").splitlines() if "cost_ratio" in line)
    assert "  12  " in row


def test_rows_have_figures_per_accelerator_and_can_be_sorted_by_them() -> None:
    """Rates are divided by the accelerators, times are multiplied; latencies and systems without
    accelerators have none and stand last.
    """
    rows = json.loads(
        invoked("llama", "--round", "inference-v6.0", "--sort", "accelerator", "--format", "json")
    )["published"]
    offline = [row for row in rows if row["scenario"] == "Offline"]
    figures = [row["per_accelerator"] for row in offline]
    assert figures[0] == {
        "value": offline[0]["value"] / offline[0]["accelerators"],
        "unit": "tokens/s per accelerator",
    }
    values = [each["value"] for each in figures if each]
    assert values == sorted(values, reverse=True) and len(values) > 5
    assert figures[len(values) :] == [None] * (len(figures) - len(values))
    assert {row["accelerators"] for row in offline[len(values) :]} == {0}
    latencies = json.loads(invoked("resnet50", "--round", "inference-v6.0", "--format", "json"))
    assert all(
        row["per_accelerator"] is None for row in latencies["published"] if row["unit"] == "ns"
    )
    (minutes,) = json.loads(invoked("resnet50", "--round", "training-v1.0", "--format", "json"))[
        "published"
    ]
    assert minutes["headline"] == minutes["value"] * minutes["convergence_factor"] > 29.3
    assert minutes["per_accelerator"]["value"] == minutes["headline"] * minutes["accelerators"]
    table = invoked("resnet50", "--round", "training-v1.0")
    assert "29.3029 minutes" in table and "times the factor 1.0044" in table
    assert "234.423 accelerator-minutes" in table
    assert " no accelerator " in invoked("resnet50", "--round", "inference-v4.1")


@pytest.mark.parametrize(
    ("name", "workload"),
    [("llama31_8b", "llama"), ("llama3.1-8b", "llama"), ("ssd-resnet34", "ssd"), ("mask rcnn", "")],
)
def test_mlperfs_names_of_a_workload_count(name: str, workload: str) -> None:
    """Who looks for a benchmark knows MLPerf's name of it."""
    rows = json.loads(invoked(name, "--format", "json"))["published"]
    assert {row["workload"] for row in rows} == {workload or "maskrcnn"}


def test_csv_is_what_compare_reads_again() -> None:
    """Through a file of the user's own."""
    text = invoked("gnmt", "--format", "csv", "--sort", "round")
    rows = parse_published_rows(text, "out.csv")
    assert rows and [
        row
        for name in list_published_files()
        for row in read_published_rows(name)
        if row.workload == "gnmt"
    ] == list(rows)


def test_the_table_has_sources_and_the_legend() -> None:
    """A figure without its source is hearsay."""
    text = invoked("gnmt", "--round", "inference-v0.5")
    assert (
        "inference_results_v0.5@" in text and "See www.mlcommons.org for more information." in text
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["resnet5"], "unknown published workload 'resnet5'; did you mean 'resnet50'?"),
        (["--round", "training-v9"], "unknown published round 'training-v9'"),
        (["--round", "training-v6.0"], "training-v6.0 has no rows, because no whole results"),
        (
            ["gnmt", "--round", "training-v1.0"],
            "training-v1.0 has no rows of gnmt; these have: inference-v0.5, training-v0.5",
        ),
        (["--org", "Nobody & Sons"], "unknown organisation among these results"),
    ],
)
def test_what_is_not_there_is_told(arguments: list[str], words: str) -> None:
    """Instead of an empty table."""
    with pytest.raises(RequestError) as error:
        CliRunner().invoke(published, arguments, catch_exceptions=False)
    assert words in str(error.value)


def test_the_command_loads_neither_the_judge_nor_a_table_of_colours() -> None:
    """It answers at once."""
    code = (
        "import sys\nfrom submissions.publications import print_published_results\nprint_published_results('gnmt', None, None,"
        " 'text')\nprint(sorted(sys.modules), file=sys.stderr)"
    )
    told = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stderr
    assert not [
        name
        for name in ("'compliance", "'rich'", "'msgspec'", "'numpy'", "'submissions.score.score'")
        if name in told
    ]


# ---- which rounds are compatible ----


def test_every_row_of_the_table_has_its_source_and_known_names() -> None:
    """And the file is no round."""
    rows: list[Any] = [row for half in read_compatibility_table().values() for row in half.values()]
    assert rows and all(row["source"] and row["names"] for row in rows)
    assert "compatibility" not in registry.list_round_names()
    assert {name for half in read_compatibility_table().values() for name in half} == {
        "resnet50",
        "ssd",
        "maskrcnn",
        "gnmt",
        "transformer",
        "llama",
    }
    text = (Path(registry.__file__).parent / "rounds" / "compatibility.toml").read_text()
    assert tomllib.loads(text) == read_compatibility_table()


def test_names_and_rounds_meet() -> None:
    """Each half has its own names."""
    assert (
        find_podium_workload("inference", "ssd-large")
        == find_podium_workload("inference", "ssd-resnet34")
        == "ssd"
    )
    assert (
        find_podium_workload("training", "resnet") == "resnet50"
        and find_podium_workload("inference", "mobilenet") == "mobilenet"
    )
    assert has_comparable_rounds(
        "inference", "resnet50", "inference-v0.5", "inference-v0.7"
    ) and not has_comparable_rounds("inference", "gnmt", "inference-v0.5", "inference-v0.7")
    assert has_comparable_rounds(
        "training", "rings", "podium-v1", "podium-v1"
    ) and not has_comparable_rounds("training", "resnet50", "training-v0.6", "podium-v1")


def test_a_list_begins_with_rounds_and_folds_documents() -> None:
    """The first screens were board powers of `1 x accelerators`."""
    told = invoked("resnet50")
    assert not re.search(r"^documents", told, re.MULTILINE) and "board_power" not in told
    folded = re.search(
        r"^(\d+) rows from documents .*: podium published resnet50 --round documents$",
        told,
        re.MULTILINE,
    )
    listed = invoked("resnet50", "--round", "documents")
    lines = [line for line in listed.splitlines() if line.startswith("documents")]
    assert folded and int(folded[1]) == len(lines) > 100
    assert "x accelerators" not in listed
    assert invoked("alexnet") == invoked("alexnet", "--round", "documents"), "no round has any"


def test_a_list_says_that_it_is_not_complete() -> None:
    """A buyer quotes the best of a round, and the round had a better one."""
    assert re.search(
        r"\n31 rows; no complete list", invoked("resnet50", "--round", "training-v0.7")
    )


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    rows = read_published_rows("training-v0.7")
    lines = format_published_table(rows, width)
    assert max(map(len, lines)) <= width
    told = re.sub(r"\s", "", "".join(lines))
    assert all(re.sub(r"\s", "", row.origin.document) in told for row in rows)

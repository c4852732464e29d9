"""What `podium compare` prints: conclusions first, names of the paths, what differs; nothing cut or
framed where nobody reads it on a terminal.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from submissions.commands.compare import compare
from submissions.compare.tables import shorten_equal_parts
from submissions.labels import format_letter
from suite.errors import RequestError

pytestmark = pytest.mark.usefixtures("objections")

BETA = "beta" * 8
LONG = "a-name-that-is-longer-than-any-terminal-is-wide-" * 2
BOXES = re.compile("[\u2500-\u257f]")


def invoked(*arguments: object) -> Result:
    return CliRunner().invoke(compare, [*map(str, arguments)], catch_exceptions=False)


def printed(*words: str | Path, terminal: bool = False) -> list[str]:
    """The lines of the program itself, through a pipe or on a terminal of 80 columns."""
    command = [sys.executable, "-m", "suite.cli", *map(str, words)]
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    environment["PYTHONIOENCODING"] = "utf-8"
    if not terminal:
        found = subprocess.run(command, env=environment, capture_output=True, check=False)
        return found.stdout.decode().splitlines()
    ours, theirs = os.openpty()
    environment["COLUMNS"] = "80"
    with subprocess.Popen(command, env=environment, stdout=theirs, stderr=subprocess.DEVNULL):
        os.close(theirs)
        text = b""
        while chunk := read_terminal(ours):
            text += chunk
    os.close(ours)
    return text.decode().splitlines()


def read_terminal(descriptor: int) -> bytes:
    """What comes next; nothing once the program has closed its end."""
    try:
        return os.read(descriptor, 65536)
    except OSError:
        return b""


@pytest.fixture
def other(tmp_path: Path, make_tree: Callable[..., Path]) -> Path:
    """A second campaign with other threads, in a folder with a long name."""
    return make_tree(tmp_path / LONG, org="beta", nonce=BETA, threads=64)


def test_a_line_for_each_result_comes_first(results: Path, other: Path) -> None:
    """Somebody who reads five lines has read what was found."""
    lines = invoked(results, other).stdout.splitlines()
    assert lines[lines.index("") - 5 : lines.index("")] == lines[:5]
    assert (
        lines[:5] == json.loads(invoked(results, other, "--format", "json").stdout)["conclusions"]
    )
    assert lines[2] == (
        "resnet50 Offline: B is 1.00x as fast as A, one run each, no interval; not tested"
    )
    assert lines[3].startswith("resnet50 Server: B is not tested: run at requested rates")
    assert f"A: {results}" in lines and f"B: {other}" in lines


def test_one_system_is_named_once_and_a_difference_once(results: Path, other: Path) -> None:
    """`host-torch-fp32` stood beside each of ten rows, and so did the threads."""
    text = invoked(results, other).stdout
    assert text.count("host-torch-fp32") == 1 and text.count("threads: 2 and 64") == 1
    assert "B differs from A in all scenarios: threads: 2 and 64" in text
    table = invoked(results, other, "--format", "markdown").stdout
    assert "| system |" not in table and table.count("host-torch-fp32") == 1


def test_names_without_what_all_of_them_share() -> None:
    """Two engines on one machine differ in one word."""
    names = {"2c-amd-epyc-torch-fp32", "2c-amd-epyc-onnxruntime-fp32"}
    assert [shorten_equal_parts(each, names) for each in sorted(names)] == [
        "…-onnxruntime-…",
        "…-torch-…",
    ]
    assert shorten_equal_parts("box-a", {"box-a", "tower-b"}) == "box-a"
    assert shorten_equal_parts("box", {"box", "box-int8"}) == "box"
    assert shorten_equal_parts("box-int8", {"box", "box-int8"}) == "…-int8"


def test_systems_that_differ_stand_beside_their_results(
    results: Path, tmp_path: Path, make_tree: Callable[..., Path]
) -> None:
    tower = make_tree(tmp_path / "tower", org="beta", nonce=BETA)
    for path in [*tower.glob("*/*/*/host-*")]:
        path.rename(path.with_name(path.name.replace("host", "tower")))
    lines = invoked(results, tower).stdout.splitlines()
    place = lines.index("resnet50 Offline: samples/s, more is better")
    assert [line.split()[-1] for line in lines[place + 1 : place + 4]] == [
        "system",
        "host-…",
        "tower-…",
    ]
    assert not any(line.startswith("system:") for line in lines)


# ---- labels ----


def test_labels_stand_for_the_paths(results: Path, other: Path, tmp_path: Path) -> None:
    """Two bundles of one machine: neither the system nor a path says which is which."""
    words = (results, other, "--label", "A=two threads", "--label", "B=[64]")
    text = invoked(*words).stdout
    assert "resnet50 Offline: [64] is 1.00x as fast as two threads" in text
    assert f"\n[64]: {other}\n" in text and "\n  [64]  " in text
    found = json.loads(invoked(*words, "--format", "json").stdout)
    assert found["labels"] == [
        {"path": str(results), "label": "two threads"},
        {"path": str(other), "label": "[64]"},
    ]
    assert [each["label"] for each in found["comparisons"][0]["results"]] == [
        "two threads",
        "[64]",
    ]
    page = tmp_path / "page.html"
    invoked(*words, "-o", page)
    svg = re.findall(r'<svg class="chart".*?</svg>', page.read_text(), re.DOTALL)
    assert len(svg) >= 3 and all(">[64]</text>" in each for each in svg)
    assert "two threads and [64] compared" in page.read_text() or "[64] and two" in page.read_text()


def test_a_path_of_several_systems_keeps_their_names(
    results: Path, tmp_path: Path, make_tree: Callable[..., Path]
) -> None:
    """Within a path its letter tells nothing apart."""
    tower = make_tree(tmp_path / "tower")
    for path in [*tower.glob("*/*/*/host-*")]:
        path.rename(path.with_name(path.name.replace("host", "tower")))
    for folder in ("systems", "results", "measurements"):
        for path in (tower / "open" / "acme" / folder).iterdir():
            path.rename(results / "open" / "acme" / folder / path.name)
    (_, line, *_) = [each for each in invoked(results).stdout.splitlines() if "fast as" in each]
    assert "tower-torch-fp32 is 1.00x as fast as host-torch-fp32" in line
    named = invoked(results, "--label", "A=mine").stdout
    assert "mine tower-torch-fp32 is 1.00x as fast as mine host-torch-fp32" in named


@pytest.mark.parametrize(
    ("labels", "told"),
    [
        (("C=x",), "--label C=x: no path has this letter; A is a, B is b"),
        (("A",), "--label A: give a letter and a name, as in --label A=fp32"),
        (("A= ",), "give a letter and a name"),
        (("A=x", "A=y"), "--label A=y: A has a name already, x"),
        (("A=x", "B=x"), "--label: two paths are named x"),
        (("A=B",), "--label: two paths are named B"),
    ],
)
def test_a_label_that_makes_no_sense_is_refused(labels: tuple[str, ...], told: str) -> None:
    words = [word for each in labels for word in ("--label", each)]
    with pytest.raises(RequestError) as error:
        invoked("a", "b", *words)
    assert told in str(error.value)


def test_there_is_a_letter_for_every_path() -> None:
    assert [format_letter(each) for each in (0, 25, 26, 51, 52, 701, 702)] == [
        *("A", "Z", "AA", "AZ", "BA", "ZZ", "AAA"),
    ]


# ---- pipes and terminals ----


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [["compare", "{results}", "{other}"], ["score", "{other}"], ["list"], ["published", "rings"]],
    ids=lambda words: words[0],
)
def test_no_table_through_a_pipe_has_boxes_or_cut_names(
    results: Path, other: Path, words: list[str]
) -> None:
    """A pipe has no width: what was cut there was lost."""
    if words == ["published", "rings"]:
        words = ["published", "resnet50", "--round", "training-v0.7"]
    lines = printed(*(each.format(results=results, other=other) for each in words))
    text = "\n".join(lines)
    assert len(lines) > 5 and not BOXES.search(text) and "…" not in text
    if words[0] == "compare":
        assert text.count(LONG) >= 1
    if words[0] == "published":
        assert "1-node-8s-cpx-1-tensorflow" in text


@pytest.mark.slow
def test_a_terminal_wraps_sentences_between_words(results: Path, other: Path) -> None:
    lines = printed("compare", results, other, terminal=True)
    whole = [line for line in lines if LONG not in line]
    assert max(map(len, whole)) <= 80 and not BOXES.search("".join(lines))
    server = next(place for place, line in enumerate(lines) if "resnet50 Server: B is not" in line)
    assert lines[server + 1].startswith("    ")

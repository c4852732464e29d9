"""Each workload's page tells, in one table, where the workload is not MLPerf's reference."""

from importlib.resources import files

import pytest

from suite import registry

HEADING = "Where it is not the reference"
COLUMNS = ["what", "reference", "podium", "why"]
TOLD = {
    "resnet50": ["max-pooling", "resizing", "colours", "weight decay"],
    "ssd": ["crowd", "over the edge", "evaluated images", "suppression", "nothing is found"],
    "maskrcnn": ["mask targets", "num_image_candidates", "start weights", "inference"],
    "gnmt": [
        "training text",
        "part batches",
        "beam search",
        "length limit",
        "an answer",
        "performance set",
    ],
    "llama": ["framework", "number formats", "serving engine", "weights served"],
    "minigo": ["round", "evaluation", "value", "random numbers", "gate", "inference"],
    "transformer": [
        "first step of Adam",
        "sentences of a batch",
        "length limit and end",
        "vocabulary",
        "inference",
    ],
}
"""Differences that an independent review found, or that the pages always told, by the first words
of their rows.
"""


def section(workload: str) -> list[str]:
    """Give the lines below the heading; there has to be one such heading."""
    page = (files(f"workloads.{workload}") / "README.md").read_text()
    _, found = page.split(f"\n## {HEADING}\n")
    return found.split("\n## ")[0].splitlines()


def rows(workload: str) -> list[list[str]]:
    """Give the cells of the section's table, its head first."""
    return [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in section(workload)
        if line.startswith("|")
    ]


def test_every_workload_is_looked_at() -> None:
    """A new one of podium's own tells it too."""
    own = {
        name
        for name, point in registry.map_entry_points("podium.workloads").items()
        if point.value.startswith("workloads.")
    }
    assert own == TOLD.keys()


@pytest.mark.parametrize("workload", TOLD)
def test_a_page_tells_where_it_is_not_the_reference(workload: str) -> None:
    """What, the reference and its file, podium, why: no cell is empty, and none of the known
    differences is left out.
    """
    head, line, *differences = rows(workload)
    assert head == COLUMNS and set("".join(line)) == {"-"}
    assert all(len(row) == len(COLUMNS) and all(row) for row in differences)
    known = {row[0] for row in differences}
    assert not [
        told for told in [*TOLD[workload], "`smoke`"] if not any(told in what for what in known)
    ]


@pytest.mark.parametrize("workload", TOLD)
def test_a_difference_names_its_source(workload: str) -> None:
    """A file of the reference or the rules, unless it is said that there is none; smoke's are
    settings, told against the reference or its file.
    """
    for what, reference, *_ in rows(workload)[2:]:
        assert (
            "(T `" in reference
            or "(I `" in reference
            or "(training_rules.adoc" in reference
            or reference == "never a benchmark"
            or what == "`smoke`"
        )
    legend = section(workload)[1]
    rules = "v5.1" if workload == "llama" else "v0.7"
    assert legend.startswith(f"T: mlcommons/training ({rules}), `")
    assert ("(I `" in "".join(section(workload)) or "; I `" in "".join(section(workload))) == (
        "; I: mlcommons/inference, `" in legend
    )

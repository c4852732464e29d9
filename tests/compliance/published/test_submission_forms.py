"""Where the forms of submissions have the files of a tree is where published trees have them."""

from pathlib import Path
from typing import Any

import pytest
from corpus import CORPUS

from suite import registry

TREES = [path.name for path in sorted(CORPUS.glob("*_v*"))]


def load_form(tree: str) -> Any:
    """Load the form of the round of a published tree."""
    name = tree.replace("_", "-")
    return registry.load_round_part(name, "form")(name)


def list_entries(tree: str) -> list[tuple[Path, tuple[str, str, str]]]:
    """List the closed entries of a tree: the organisation, and their place in its results."""
    return [
        (entry.parents[3], (entry.parents[1].name, entry.parent.name, entry.name))
        for entry in sorted((CORPUS / tree).glob("closed/*/results/*/*/*"))
        if entry.is_dir()
    ]


@pytest.mark.parametrize("tree", [tree for tree in TREES if tree.startswith("inference")])
def test_the_files_of_entries_lie_where_the_form_has_them(tree: str) -> None:
    form = load_form(tree)
    assert list_entries(tree)
    for home, place in list_entries(tree):
        assert form.has_benchmark(place[1]), place
        measurements = form.locate_measurements(home, place)
        names = {each.name for each in measurements.iterdir()}
        document = form.name_model_document(place, "implementation")
        if form.together:
            assert document in names, place
        else:
            assert document.startswith(place[0])
            assert any(each.startswith(place[0]) and each.endswith(".json") for each in names)
        if (home / "systems").is_dir():
            assert form.locate_description(home, place[0]).is_file(), place
        tests = form.locate_tests(home, place)
        assert not tests.is_dir() or tests == measurements or any(tests.glob("TEST*")), place


@pytest.mark.parametrize("tree", [tree for tree in TREES if tree.startswith("inference")])
def test_code_lies_where_the_form_has_it(tree: str) -> None:
    """Of most organisations; some of v6.0 kept the folder of the rounds before."""
    form = load_form(tree)
    homes = [home for home in (CORPUS / tree).glob("closed/*") if list(home.glob("code/*/*"))]
    homes += [home for home in (CORPUS / tree).glob("closed/*") if list(home.glob("src/*"))]
    for home in homes:
        assert form.locate_code(home, "none").parent.is_dir(), home


@pytest.mark.parametrize("tree", [tree for tree in TREES if tree.startswith("training")])
def test_the_files_of_run_sets_lie_where_the_form_has_them(tree: str) -> None:
    form = load_form(tree)
    found = 0
    for folder in sorted((CORPUS / tree).glob("*/results/*/*")):
        home, system = folder.parents[2], folder.parent.name
        if not form.has_benchmark(folder.name):
            continue
        log = form.locate_log(home, system, folder.name, 0)
        assert any(log.parent.glob("result_*.txt")), folder  # numbered as their organisation likes
        if any((home / "systems").glob("*.json")):
            assert form.locate_description(home, system).is_file(), folder
        found += 1
    assert found

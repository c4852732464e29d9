"""Results trees on a site: every result with its verdict, its score and the published value beside
it, every objection at its line, and nothing of the publisher's own folders.
"""

import csv
import io
import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from changed_results import change_result
from click.testing import CliRunner, Result
from corpus import PUBLISHED

from submissions.commands.publish import publish
from submissions.publish.tree_pages import (
    format_accuracy,
    format_trees_csv,
    format_verdict_counts,
    group_tree_results,
)
from submissions.publish.trees import TreeOptions, is_site_tree, read_site_trees
from suite.errors import JudgedError, RequestError

if TYPE_CHECKING:
    from browser import Browser

BASE = Path(__file__).resolve().parents[2] / "examples" / "base"
TRAINED, SERVED, LATER = BASE / "trained-tree", BASE / "filed-closed", BASE / "since-v5.1"
MODES: dict[str, dict[str, Any]] = {
    "light": {},
    "dark": {"color_scheme": "dark"},
    "phone": {"viewport": {"width": 360, "height": 780}},
}


def run(*words: str | Path) -> Result:
    return CliRunner().invoke(
        publish, [*map(str, words)], catch_exceptions=False, standalone_mode=False
    )


def read_tree(site: Path, number: int = 0) -> dict[str, Any]:
    (*trees,) = json.loads((site / "data" / "trees.json").read_text("utf-8"))["trees"]
    return dict(trees[number])


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site of three trees of three rounds."""
    target = tmp_path_factory.mktemp("trees") / "site"
    run(TRAINED, SERVED, LATER, "-o", target)
    return target


@pytest.fixture
def spoilt(tmp_path: Path) -> Path:
    """A training tree with a run that claims success without the target."""
    tree = tmp_path / "round" / "training_v0.7"
    shutil.copytree(TRAINED, tree)
    log = next(tree.rglob("result_2.txt"))
    log.write_text(
        re.sub(r'("key": "eval_accuracy", "value": )0\.[0-9]+', r"\g<1>0.1", log.read_text())
    )
    return tree


# ---- pages ----


def test_every_result_has_a_row_on_its_trees_page(site: Path) -> None:
    index = (site / "index.html").read_text("utf-8")
    assert "3 results trees" in index and "0 results from 0 bundles" not in index
    pages = re.findall(r'href="(trees/[^"]+)"', index)
    assert len(pages) == 3
    trained, served, later = ((site / page).read_text("utf-8") for page in pages)
    assert "3.1031 min" in trained and "training-v0.7" in trained
    assert "400.00 samples/s" in served and "gnmt, Offline" in served
    assert "109.23 samples/s" in later and "163.82 queries/s" in later
    for page in pages:
        links = re.findall(r'href="([^"#:]+)"', (site / page).read_text("utf-8"))
        assert all(((site / page).parent / link).exists() for link in links), page


def test_an_organisations_page_has_systems_and_objections_with_file_and_line(
    spoilt: Path, tmp_path: Path
) -> None:
    ended = run(spoilt, "-o", tmp_path / "site")
    assert ended.exit_code == 0, "broken results are shown, not left out"
    tree = read_tree(tmp_path / "site")
    (org,) = tree["organisations"]
    assert (org["name"], org["verdict"]) == ("acme", "Not compliant")
    errors = [each for each in org["findings"] if each["severity"] == "error"]
    assert errors and any(each["line"] for each in errors)
    (page,) = (tmp_path / "site" / "trees").rglob("1-acme.html")
    text = page.read_text("utf-8")
    for each in errors:
        place = f"{each['file']}:{each['line']}" if each["line"] else each["file"]
        assert place in text and each["rule"] in text
        assert each["file"].startswith("acme/results/box/resnet")
    assert "chip" in text and "Errors: " in text
    (result,) = org["results"]
    assert result["verdict"] == "Not compliant" and result["errors"] > 0


def test_a_waiver_accepts_an_objection_and_the_page_says_so(spoilt: Path, tmp_path: Path) -> None:
    run(spoilt, "-o", tmp_path / "site")
    rules = {
        each["rule"]
        for each in read_tree(tmp_path / "site")["organisations"][0]["findings"]
        if each["severity"] == "error"
    }
    waivers = tmp_path / "waivers.toml"
    waivers.write_text(
        "".join(
            f'[[waiver]]\nrule = "{rule}"\npath = "acme"\nby = "the committee"\n'
            'until = 2099-01-31\nwhy = "known"\n'
            for rule in rules
        )
    )
    run(spoilt, "-o", tmp_path / "site", "--accept", waivers)
    (org,) = read_tree(tmp_path / "site")["organisations"]
    assert org["verdict"] == "Valid"
    assert org["results"][0]["accepted"] > 0 and org["results"][0]["errors"] == 0
    (page,) = (tmp_path / "site" / "trees").rglob("1-acme.html")
    text = page.read_text("utf-8")
    assert "Accepted errors" in text and "by the committee until 2099-01-31: known" in text


def test_a_result_without_a_score_says_why(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    shutil.copytree(SERVED, tree)
    (summary,) = tree.rglob("results/box/gnmt/Offline/performance/run_1/mlperf_log_summary.txt")
    summary.write_text("nothing\n")
    run(tree, "-o", tmp_path / "site")
    (result,) = read_tree(tmp_path / "site")["organisations"][0]["results"]
    assert result["value"] is None and "no result in the summaries" in result["problem"]
    assert result["verdict"] == "Not compliant"
    (page,) = (tmp_path / "site" / "trees").rglob("1-acme.html")
    assert "no score: closed/acme/results/box/gnmt/Offline" in page.read_text("utf-8")


def test_nothing_of_the_publisher_and_of_other_hosts_is_in_it(spoilt: Path, tmp_path: Path) -> None:
    run(spoilt, "-o", tmp_path / "site")
    for file in (each for each in (tmp_path / "site").rglob("*") if each.is_file()):
        content = file.read_bytes()
        assert str(tmp_path).encode() not in content, file.name
        assert not re.search(rb'(?:src|href)="(?:https?:)?//', content), file.name


def test_texts_of_a_tree_are_no_markup(tmp_path: Path) -> None:
    """Names come from anybody's folders, in any script."""
    tree = tmp_path / "tree"
    shutil.copytree(TRAINED, tree)
    (tree / "acme").rename(tree / "<b>K\u014dbe\u202e")
    run(tree, "-o", tmp_path / "site")
    pages = [
        *(tmp_path / "site" / "trees").rglob("*.html"),
        tmp_path / "site" / "data" / "trees.csv",
        tmp_path / "site" / "data" / "trees.json",
    ]
    text = "".join(page.read_text("utf-8") for page in pages)
    assert "&lt;b&gt;K\u014dbe" in text and "\u202e" not in text
    assert "<b>K" not in "".join(page.read_text("utf-8") for page in pages[:-2])


def test_the_same_trees_give_the_same_bytes(site: Path, tmp_path: Path) -> None:
    run(TRAINED, SERVED, LATER, TRAINED, "-o", tmp_path / "again")
    sums = (tmp_path / "again" / "data" / "SHA256SUMS").read_text()
    assert sums == (site / "data" / "SHA256SUMS").read_text()


def test_bundles_and_trees_make_one_site(bundle: Path, tmp_path: Path) -> None:
    run(bundle, TRAINED, "-o", tmp_path / "site")
    text = (tmp_path / "site" / "index.html").read_text("utf-8")
    assert "1 results tree, and 2 results from 1 bundle." in text
    assert json.loads((tmp_path / "site" / "data" / "results.json").read_text())["results"]


# ---- data ----


def test_csv_and_json_have_the_same_figures(site: Path) -> None:
    rows = list(csv.DictReader(io.StringIO((site / "data" / "trees.csv").read_text("utf-8"))))
    trees = json.loads((site / "data" / "trees.json").read_text("utf-8"))["trees"]
    results = [each for tree in trees for org in tree["organisations"] for each in org["results"]]
    assert len(rows) == len(results) == 4
    for row, result in zip(rows, results, strict=True):
        assert float(row["value"]) == result["value"]
        assert (row["location"], row["verdict"]) == (result["location"], result["verdict"])


def test_a_tree_has_its_scores_in_mlcommons_columns(site: Path) -> None:
    (training,) = (site / "trees").rglob("training.csv")
    (row,) = csv.DictReader(io.StringIO(training.read_text("utf-8")))
    assert float(row["resnet"]) == pytest.approx(3.1031)
    assert len(list((site / "trees").rglob("served.csv"))) == 2


@pytest.mark.parametrize(("share", "words"), [(1.0, "equal"), (0.5, "+100 %"), (1.01, "-0.99 %")])
def test_a_tables_value_stands_beside_the_score(tmp_path: Path, share: float, words: str) -> None:
    """Of MLCommons' own table, whose paths name the runs since v6.0."""
    table = tmp_path / "summary_results.json"
    row = {
        "ID": "5.1-0001",
        "Location": "./closed/acme/results/box/retinanet/Offline/performance/run_1",
        "Performance_Result": 109.227 * share,
        "Performance_Units": "Samples/s",
        "version": "v5.1",
        "Submitter": "acme",
    }
    table.write_text(json.dumps([row]))
    run(LATER, "-o", tmp_path / "site", "--table", table)
    offline, server = read_tree(tmp_path / "site")["organisations"][0]["results"]
    assert offline["published"] == pytest.approx(109.227 * share)
    assert offline["published_source"] == "MLCommons' table, 5.1-0001"
    assert server["published"] is None
    (page,) = (tmp_path / "site" / "trees").rglob("1-acme.html")
    assert words in page.read_text("utf-8")


def test_a_table_of_latencies_is_in_milliseconds_and_a_csv_file_is_a_table(tmp_path: Path) -> None:
    from submissions.publish.references import build_reference_key, read_published_references

    table = tmp_path / "t.json"
    place = "closed/acme/results/box/resnet50/SingleStream"
    row = {
        "ID": "6.0-1",
        "Location": place,
        "Performance_Result": 0.5,
        "Performance_Units": "Latency (ms)",
        "version": "v6.0",
    }
    table.write_text(json.dumps([row]))
    (found,) = read_published_references([], [table]).values()
    assert found.value == 500_000
    rows = BASE.parents[2] / "suite" / "rounds" / "published" / "training-v1.0.csv"
    location = "GIGABYTE/results/G492-ZD2_A100_20210517.mxnet/resnet"
    key = build_reference_key("training-v1.0", location)
    assert read_published_references([], [rows])[key].value == pytest.approx(29.1745 * 1.0044)
    assert read_published_references(["training-v1.0"], [])[key].source.startswith("podium's rows")


def test_a_result_that_is_not_valid_ranks_behind_those_that_are() -> None:
    """Its value is in doubt, and is often the best."""
    (tree,) = read_site_trees([TRAINED], TreeOptions())
    (valid,) = tree.results
    assert valid.result.value
    half = valid.result.value / 2
    broken = replace(valid, result=change_result(valid.result, verdict="broken", value=half))
    unscored = replace(valid, result=change_result(valid.result, value=None))
    (table,) = group_tree_results([unscored, broken, valid])
    assert table.results == (valid, broken, unscored)


def test_an_entry_without_a_score_is_not_counted_among_the_valid() -> None:
    """27 were valid, and two of them could not be scored."""
    (tree,) = read_site_trees([TRAINED], TreeOptions())
    (valid,) = tree.results
    without = change_result(valid.result, value=None, problem="no result in the detail logs")
    unscored = replace(valid, result=without)
    assert format_verdict_counts([valid, unscored, valid]) == "2 valid, 1 valid without a score"


def test_a_count_among_accuracies_keeps_its_digits() -> None:
    """`8.14614e+06` was broken in two inside its exponent."""
    shown = [format_accuracy(score) for score in (8146140.0, 38.7771, 0.90862)]
    assert shown == ["8,146,140", "38.7771", "0.90862"]


def test_csv_has_all_digits_of_a_score() -> None:
    """A count of tokens has more than six."""
    (tree,) = read_site_trees([TRAINED], TreeOptions())
    (org,) = tree.organisations
    accuracy = {"GEN_LEN": 8151740.0, "ROUGE1": 38.486}
    counted = replace(
        org.results[0], result=change_result(org.results[0].result, accuracy=accuracy)
    )
    whole = replace(tree, organisations=(replace(org, results=(counted,)),))
    (row,) = csv.DictReader(io.StringIO(format_trees_csv([whole])))
    assert row["accuracy"] == "GEN_LEN=8151740 ROUGE1=38.486"


def test_an_idle_waiver_is_named_as_by_the_judge(tmp_path: Path) -> None:
    waivers = tmp_path / "waivers.toml"
    waivers.write_text(
        '[[waiver]]\nrule = "log.target"\npath = "nowhere"\nby = "us"\nuntil = 2099-01-31\n'
        'why = "known"\n'
    )
    told = run(TRAINED, "-o", tmp_path / "site", "--accept", waivers).stderr
    sentence = f"podium: {waivers}: the waiver of log.target in nowhere accepts nothing; remove it"
    assert told.splitlines()[0] == sentence


# ---- what is refused ----


@pytest.mark.parametrize("place", ["systems/other.json", "results/box/resnet/result_9.txt", "docs"])
def test_a_link_out_of_a_tree_is_refused(place: str, tmp_path: Path) -> None:
    """A finding quotes what it found: a submitter's link would put a file of the publisher's on the
    site.
    """
    tree = tmp_path / "training_v0.7"
    shutil.copytree(TRAINED, tree)
    secret = tmp_path / "secret"
    secret.mkdir() if place == "docs" else secret.write_text("a password\n")
    link = tree / "acme" / place
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(secret)
    with pytest.raises(
        JudgedError, match="is a link out of .*training_v0.7, and a site would show"
    ):
        run(tree, "-o", tmp_path / "site")
    assert not (tmp_path / "site").exists()


def test_links_within_a_tree_and_loops_are_no_matter(tmp_path: Path) -> None:
    tree = tmp_path / "training_v0.7"
    shutil.copytree(TRAINED, tree)
    (tree / "acme" / "loop").symlink_to("loop")
    (tree / "acme" / "up").symlink_to("..")
    (tree / "acme" / "gone").symlink_to("/nowhere/at/all")
    assert run(tree, "-o", tmp_path / "site").exit_code == 0


ZERO_ROW = {
    "ID": "5.1-0001",
    "Location": "closed/acme/results/box/retinanet/Offline",
    "Performance_Result": 0,
    "Performance_Units": "Samples/s",
    "version": "v5.1",
}


@pytest.mark.parametrize(
    "content",
    [
        *("", "{}", '[{"ID": "1"}]', '[{"ID": 1}]', "[1]", "\0", json.dumps([ZERO_ROW])),
        *(json.dumps([ZERO_ROW | {"Performance_Result": each}]) for each in (1e-320, 1e308)),
    ],
)
def test_what_is_no_table_is_one_sentence(tmp_path: Path, content: str) -> None:
    table = tmp_path / "table.json"
    table.write_text(content)
    with pytest.raises(RequestError, match="required: MLCommons' summary_results.json") as refused:
        run(LATER, "-o", tmp_path / "site", "--table", table)
    assert refused.value.exit_code == 2 and "\n" not in str(refused.value)
    assert not (tmp_path / "site").exists()


def test_a_table_is_named_as_the_file_that_it_is(tmp_path: Path) -> None:
    """A file that is not there was told to be an unknown round."""
    other = tmp_path / "table.txt"
    other.write_text("a text\n")
    for table, why in (
        (tmp_path / "absent", "absent: No such file or directory"),
        (other, r"table\.txt:1: columns a text; required: id, round"),
    ):
        with pytest.raises(RequestError, match=why):
            run(LATER, "-o", tmp_path / "site", "--table", table)


@pytest.mark.parametrize("option", ["--accept", "--table"])
def test_options_of_trees_need_one(bundle: Path, tmp_path: Path, option: str) -> None:
    with pytest.raises(RequestError, match=f"{option}: is for results trees"):
        run(bundle, "-o", tmp_path / "site", option, tmp_path / "absent.json")


def test_a_results_folder_of_podiums_own_is_no_tree(tmp_path: Path) -> None:
    """It is sealed first: its ledger and its campaign are then checked."""
    assert not is_site_tree(BASE / "tree")
    with pytest.raises(JudgedError, match="not a sealed bundle; create one with podium pack"):
        run(BASE / "tree", "-o", tmp_path / "site")


def test_a_part_of_a_tree_is_told_what_to_give(tmp_path: Path) -> None:
    """Without its tree, a set has neither systems nor an organisation."""
    folder = next(TRAINED.rglob("resnet"))
    with pytest.raises(JudgedError, match="a part of a results tree; publish the tree"):
        run(folder, "-o", tmp_path / "site")


def test_an_organisations_own_folder_is_a_tree_of_one(tmp_path: Path) -> None:
    run(LATER / "closed" / "acme", "-o", tmp_path / "site")
    (org,) = read_tree(tmp_path / "site")["organisations"]
    assert (org["name"], org["division"], len(org["results"])) == ("acme", "closed", 2)
    assert org["results"][0]["location"].startswith("closed/acme/results/")


def test_a_folder_of_trees_is_one_with_all_rounds(tmp_path: Path) -> None:
    shutil.copytree(TRAINED, tmp_path / "both" / "training_v0.7")
    shutil.copytree(SERVED, tmp_path / "both" / "inference_v0.5")
    run(tmp_path / "both", "-o", tmp_path / "site")
    tree = read_tree(tmp_path / "site")
    assert tree["round"] == "inference-v0.5, training-v0.7"
    assert {each["folder"] for each in tree["organisations"]} == {
        "inference_v0.5/closed/acme",
        "training_v0.7/acme",
    }
    assert sum(len(each["results"]) for each in tree["organisations"]) == 2


# ---- in a browser, and with real results ----


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_pages_ask_for_nothing_and_can_be_read_by_everybody(
    browser: "Browser", spoilt: Path, tmp_path: Path, mode: str
) -> None:
    run(spoilt, LATER, "-o", tmp_path / "site")
    names = [
        "index.html",
        *(
            page.relative_to(tmp_path / "site").as_posix()
            for page in sorted((tmp_path / "site" / "trees").rglob("*.html"))
        ),
    ]
    assert len(names) == 5
    for name in names:
        with browser.opened(tmp_path / "site" / name, **MODES[mode]) as seen:
            assert (name, seen.violations(), seen.requests, seen.complaints) == (name, [], [], [])
            assert seen.width() <= (MODES[mode].get("viewport") or {"width": 1280})["width"]


@pytest.mark.slow
@pytest.mark.corpus
def test_a_real_rounds_scores_are_mlcommons_published_values(tmp_path: Path) -> None:
    """Of every result in v6.0's tree that the table at hand has."""
    table = PUBLISHED / "expected" / "inference_v6.0_published.json"
    run(PUBLISHED / "inference_v6.0", "-o", tmp_path / "site", "--table", table)
    tree = read_tree(tmp_path / "site")
    results = [each for org in tree["organisations"] for each in org["results"]]
    beside = [each for each in results if each["deviation"] is not None]
    assert len(beside) >= 20
    assert all(abs(each["deviation"]) < 1e-5 for each in beside)
    assert all(each["published_source"].startswith("MLCommons' table") for each in beside)
    assert [each["problem"] for each in results if each["value"] is None]

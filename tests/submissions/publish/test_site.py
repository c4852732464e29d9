"""A site: every result once, its data equal in all forms, the same bytes each time, and nothing of
it where something went wrong.
"""

import csv
import errno
import hashlib
import html
import json
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import jsonschema
import msgspec
import numpy as np
import pytest
from click.testing import CliRunner

from submissions.commands.publish import publish
from submissions.pack.bundle import pack_results
from submissions.pack.manifest import build_bundle_manifest
from submissions.pack.seal import write_bundle
from submissions.report.drawing import raster
from submissions.result_index import find_results
from suite.errors import JudgedError, MissingError, RequestError
from suite.ledger.book import Ledger
from suite.ledger.steps import AttemptKind, StepKind

MLCOMMONS = {
    "Accelerator",
    "Accuracy",
    "Availability",
    "Category",
    "Code",
    "ColorKey",
    "Details",
    "ID",
    "Location",
    "Model",
    "Nodes",
    "Notes",
    "Performance_Result",
    "Performance_Units",
    "Platform",
    "Power_Result",
    "Power_Units",
    "Processor",
    "Scenario",
    "Software",
    "Submitter",
    "Suite",
    "System",
    "Unique ID (e.g. for Audit)",
    "UsedModel",
    "a#",
    "compliance",
    "errors",
    "has_power",
    "host_processor_core_count",
    "host_processors_per_node",
    "inferred",
    "operating_system",
    "p#",
    "version",
    "weight_data_types",
}
TREE = Path(__file__).resolve().parents[2] / "examples" / "base" / "tree"
HOSTILE = "<img src=x onerror=alert(1)>"


def run(*words: object) -> str:
    return str(
        CliRunner()
        .invoke(publish, [*map(str, words)], catch_exceptions=False, standalone_mode=False)
        .output
    )


def content(site: Path) -> dict[str, bytes]:
    return {
        path.relative_to(site).as_posix(): path.read_bytes()
        for path in sorted(site.rglob("*"))
        if path.is_file()
    }


@pytest.fixture
def site(bundle: Path, tmp_path: Path) -> Path:
    """A site of one bundle."""
    run(bundle, "-o", tmp_path / "site", "--title", HOSTILE)
    return tmp_path / "site"


@pytest.mark.slow
def test_a_site_has_a_page_for_each_result_and_a_report_for_each_bundle(site: Path) -> None:
    names = set(content(site))
    assert {
        "index.html",
        "resnet50/training.html",
        "resnet50/singlestream.html",
        "data/results.json",
        "data/results.csv",
        "data/SHA256SUMS",
    } <= names
    assert (
        sum(name.startswith("r/") and name.endswith("index.html") for name in names)
        == sum(name.startswith("bundles/") for name in names)
        == 1
    )


def test_links_are_relative_and_lead_somewhere(site: Path) -> None:
    """A site has to work from a disk and below any path."""
    for page in site.rglob("*.html"):
        for link in re.findall(r'<a href="([^"#]+)', page.read_text("utf-8")):
            assert "//" not in link and (page.parent / link).resolve().is_file(), (page, link)


def test_csv_and_json_say_the_same(site: Path) -> None:
    told = json.loads((site / "data/results.json").read_text("utf-8"))["results"]
    rows = list(csv.DictReader((site / "data/results.csv").read_text("utf-8").splitlines()))
    assert len(rows) == len(told) == 2
    for row, each in zip(rows, told, strict=True):
        assert list(row) == list(each)
        assert [float(run) for run in row.pop("runs").split()] == each.pop("runs")
        assert row.pop("noise").split() == each.pop("noise")
        assert row == {key: "" if value is None else str(value) for key, value in each.items()}


def test_the_json_fits_the_schema_beside_it(site: Path) -> None:
    schema = json.loads((site / "data/results.schema.json").read_text("utf-8"))
    jsonschema.Draft202012Validator(schema).validate(
        json.loads((site / "data/results.json").read_text("utf-8"))
    )


def test_the_sums_are_those_of_the_files(site: Path) -> None:
    lines = (site / "data/SHA256SUMS").read_text("utf-8").splitlines()
    files = content(site)
    del files["data/SHA256SUMS"]
    assert {name: sha for sha, _, name in (line.partition("  ") for line in lines)} == {
        name: hashlib.sha256(data).hexdigest() for name, data in files.items()
    }


@pytest.mark.slow
def test_equal_bundles_give_equal_bytes(bundle: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        run(bundle, "-o", tmp_path / name, "--published")
    assert content(tmp_path / "one") == content(tmp_path / "two")


@pytest.mark.slow
def test_a_site_may_be_made_anew(site: Path, bundle: Path) -> None:
    run(bundle, "-o", site, "--bundles", "none")
    assert not (site / "bundles").exists()
    assert sorted(path.name for path in site.parent.iterdir()) == ["site"]


@pytest.mark.slow
def test_one_bundle_given_twice_is_one_row(bundle: Path, tmp_path: Path) -> None:
    shutil.copy(bundle, tmp_path / "copy.tar.zst")
    run(bundle, tmp_path / "copy.tar.zst", bundle, "-o", tmp_path / "site")
    assert len(json.loads((tmp_path / "site/data/results.json").read_text("utf-8"))["results"]) == 2


def test_titles_and_names_of_others_are_text(site: Path) -> None:
    for page in site.rglob("*.html"):
        assert "<img" not in page.read_text("utf-8")
    assert "&lt;img" in (site / "index.html").read_text("utf-8")


def test_words_that_are_mlcommons_own_are_not_used(site: Path) -> None:
    for name in ("index.html", "resnet50/training.html"):
        own = (site / name).read_text("utf-8").partition("<main")[2].partition("<footer>")[0]
        assert not re.search(r"verified|official|leaderboard", own)


def test_a_broken_bundle_is_left_out_and_named(bundle: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken.tar.zst"
    broken.write_bytes(bundle.read_bytes()[:-50])
    with pytest.raises(JudgedError, match=r"left out:\s+broken.tar.zst"):
        run(bundle, broken, "-o", tmp_path / "site")
    index = (tmp_path / "site/index.html").read_text("utf-8")
    assert "Left out" in index and "broken.tar.zst" in index
    assert len(json.loads((tmp_path / "site/data/results.json").read_text("utf-8"))["results"]) == 2


def test_a_flipped_character_in_a_query_record_costs_its_chart_alone(tmp_path: Path) -> None:
    """It was a traceback, and nothing was published."""
    flipped, other = (shutil.copytree(TREE, tmp_path / name) for name in ("flipped", "other"))
    (log,) = flipped.rglob("performance/run_1/mlperf_log_detail.txt")
    record = log.with_name("queries.npy")
    np.save(record, np.zeros(3, [("issued_ns", "<i8"), ("done_ns", "<i8")]))
    record.write_bytes(record.read_bytes().replace(b"'<i8')", b"'<i8'(", 1))
    for path in (each for each in other.rglob("*") if each.is_file()):
        path.write_text(path.read_text("utf-8").replace("0123456789abcdef" * 2, "ab" * 16), "utf-8")
    bad = pack_results(flipped, tmp_path / "bad.tar.zst")
    good = pack_results(other, tmp_path / "good.tar.zst", systems=["box-torch-bf16"])
    run(good, bad, "-o", tmp_path / "site")
    pages = [page.read_text("utf-8") for page in sorted((tmp_path / "site/r").glob("*/index.html"))]
    assert sorted("queries.npy cannot be read" in page for page in pages) == [False, True]


def test_what_is_no_bundle_is_left_out(bundle: Path, tmp_path: Path) -> None:
    with pytest.raises(JudgedError, match="no such file"):
        run(bundle, tmp_path / "none.tar.zst", "-o", tmp_path / "site")
    assert (tmp_path / "site/index.html").is_file()


def test_a_bundle_that_does_not_count_is_left_out_with_its_first_finding(
    packed: Callable[[str, str, str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The index said that the reasons stand under findings, of a report that a site does not
    have.
    """
    monkeypatch.setattr(
        "submissions.pack.bundle.check_new_bundle", lambda partial, results: None
    )  # podium would not pack it; others may
    unknown = packed("unknown", '"framework": "torch"', '"framework": "abacus"')
    with pytest.raises(JudgedError, match=r"Not compliant: [a-z.]+: found .*; expected .*"):
        run(unknown, "-o", tmp_path / "site")
    assert "expected" in (tmp_path / "site/index.html").read_text("utf-8")


@pytest.mark.slow
def test_two_bundles_of_one_campaign_that_differ_are_both_left_out(
    bundle: Path, packed: Callable[[str, str, str], Path], tmp_path: Path
) -> None:
    """Two seals with one nonce: the same runs told twice, or two results passed off as one
    campaign's.
    """
    other = packed("other", "16.0 GiB", "512 GiB")
    with pytest.raises(JudgedError, match="shares its campaign's nonce"):
        run(bundle, other, "-o", tmp_path / "site")
    assert json.loads((tmp_path / "site/data/results.json").read_text("utf-8"))["results"] == []


def test_a_bundle_that_another_holds_gives_way_to_it(bundle: Path, tmp_path: Path) -> None:
    """A campaign packed twice, the second time with more in it: both were left out."""
    part = pack_results(TREE, tmp_path / "part.tar.zst", systems=["box-torch-bf16"])
    told = run(part, bundle, "-o", tmp_path / "site")
    assert f"{part.name}: not listed; {bundle.name} has all of its results" in told
    results = json.loads((tmp_path / "site/data/results.json").read_text("utf-8"))["results"]
    assert {each["scenario"] for each in results} == {"", "SingleStream"} and len(results) == 2


@pytest.mark.slow
def test_a_bundle_of_another_format_is_refused_and_says_which(tmp_path: Path) -> None:
    """It was listed as valid, with figures that may mean something else in its format."""
    manifest, sources = build_bundle_manifest(find_results(TREE.parents[1] / "base" / "ledger"))
    write_bundle(tmp_path / "a.tar.zst", msgspec.structs.replace(manifest, format=9), sources)
    told = "a.tar.zst: a bundle of format 9, written by podium .*; this version reads format 3"
    with pytest.raises(RequestError, match=told):
        run(tmp_path / "a.tar.zst", "-o", tmp_path / "site")


@pytest.mark.slow
def test_of_one_campaign_packed_twice_the_longer_ledger_is_listed(tmp_path: Path) -> None:
    """A further attempt that changed no result gives another seal: both were left out. Two ledgers
    that go on differently hide attempts from each other, so neither is listed.
    """
    tree = tmp_path / "tree"
    shutil.copytree(TREE.parents[1] / "base" / "ledger", tree)
    home = tree / "open" / "acme"
    ledger = Ledger(results=tree, organisation_folder=home, workload="resnet50")
    first = pack_results(tree, tmp_path / "first.tar.zst")
    text, begun = ledger.read_bytes(), ledger.read_steps()[0]
    packed = []
    for name, nonce in (("second", "cd" * 16), ("fork", "ef" * 16)):
        ledger.path.write_bytes(text)
        ledger.begin(
            AttemptKind.TRAINING, begun.of, nonce, options=begun.options, system=begun.system
        )
        ledger.append(StepKind.ABORTED, {}, what=AttemptKind.TRAINING, of=begun.of, nonce=nonce)
        packed.append(pack_results(tree, tmp_path / f"{name}.tar.zst"))
    second, fork = packed
    told = run(second, first, "-o", tmp_path / "site")
    assert f"{first.name}: not listed; {second.name} has all of its results" in told
    with pytest.raises(JudgedError, match=f"{second.name}: shares its campaign's nonce"):
        run(second, fork, "-o", tmp_path / "forks")


def test_the_index_begins_with_systems_against_workloads(site: Path) -> None:
    """Who looks for a system had to read every table."""
    text = (site / "index.html").read_text("utf-8")
    matrix = text.index('<table class="matrix">')
    assert matrix < text.index('<nav class="contents"')
    table = text[matrix : text.index("</table>", matrix)]
    assert {"box-torch-bf16", "box-torch-fp32"} <= set(re.findall(r"box-torch-\w+", table))
    results = json.loads((site / "data/results.json").read_text("utf-8"))["results"]
    assert len(re.findall(r'<a href="r/', table)) == len(results)
    assert table.count('<li class="dim">one run, no interval</li>') == len(results), (
        "one run, no letter"
    )
    for name in ("training", "singlestream"):
        assert "<td>one run, no interval<td" in (site / f"resnet50/{name}.html").read_text("utf-8")
    assert "<svg" not in text, "of one result there is no figure"


def test_a_system_without_accelerators_shows_its_processor(site: Path) -> None:
    (result, *_) = json.loads((site / "data/results.json").read_text("utf-8"))["results"]
    assert result["accelerators"] == 0 and result["processor"]
    assert result["processor"] in html.unescape((site / "index.html").read_text("utf-8"))


def test_a_folder_that_podium_did_not_make_is_refused_untouched(
    bundle: Path, tmp_path: Path
) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site/thesis.tex").write_text("years of work")
    with pytest.raises(RequestError, match="did not make"):
        run(bundle, "-o", tmp_path / "site")
    assert content(tmp_path / "site") == {"thesis.tex": b"years of work"}


@pytest.mark.parametrize("words", [("-o", "no/folder/site"), ("-o", "site", "--signers", "nobody")])
def test_places_that_are_not_there_are_refused(
    bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RequestError):
        run(bundle, *words)
    assert not [*tmp_path.iterdir()]


@pytest.mark.slow
def test_a_full_disk_leaves_the_earlier_site(
    site: Path, bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = content(site)

    def full(*_: object, **__: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(MissingError, match="No space left"):
        run(bundle, "-o", site)
    assert content(site) == before
    assert sorted(path.name for path in site.parent.iterdir()) == ["site"]


def test_published_rows_have_their_source_and_stand_in_tables_of_their_own(
    bundle: Path, tmp_path: Path
) -> None:
    run(bundle, "-o", tmp_path / "site", "--published")
    told = json.loads((tmp_path / "site/data/results.json").read_text("utf-8"))["results"]
    rows = [each for each in told if each["profile"] == "published"]
    assert len(rows) > 50 and all(each["source"] for each in rows)
    assert {each["workload"] for each in rows} == {"resnet50"}, (
        "models that the site has no result of are left out"
    )
    assert "trademarks of MLCommons" in (tmp_path / "site/index.html").read_text("utf-8")


@pytest.fixture
def published(bundle: Path, tmp_path: Path) -> Path:
    """A site of one bundle and the published rows."""
    run(bundle, "-o", tmp_path / "site", "--published")
    return tmp_path / "site"


def test_figures_of_documents_stand_under_their_half_and_are_not_ranked(published: Path) -> None:
    """Watts, costs and latencies of inference stood under training, and the highest power was
    called the best.
    """
    training, inference = (
        html.unescape((published / f"resnet50/{name}.html").read_text("utf-8"))
        for name in ("training", "inference")
    )
    assert "board power" not in training and "board power" in inference
    assert "Best results first" in training and "Best results first" not in inference
    told = [
        row
        for row in json.loads((published / "data/results.json").read_text("utf-8"))["results"]
        if row["metric"] == "board_power"
    ]
    watts = [f"{row['value']:.2f} W" for row in told if row["system"] == "Tesla V100"]
    assert (
        len(watts) == 6
        and re.findall(
            r"<td>Tesla V100<td>NVIDIA<td class=.m.>[^<]*<td class=.n.>([\d.]+ W)", inference
        )
        == watts
    ), "in the document's order"
    assert {row["half"] for row in told} == {"inference"}


def test_rows_of_one_system_are_told_apart(published: Path) -> None:
    """Six rows of one name, one organisation and six values tell nobody which is which."""
    board = html.unescape((published / "resnet50/inference.html").read_text("utf-8"))
    tables = [re.findall(r"<tr class=.*", table) for table in board.split("<table>")[1:]]
    assert len(tables) > 10
    for rows in tables:
        told = [re.sub(r'<td class="n">[^<]*', "", row) for row in rows]
        assert sorted(set(told)) == sorted(told), "only the value differs"
        assert not [row for row in rows if re.search(r">[\d.,]+ 1<", row)], "a ratio has no unit"


def test_published_rows_are_not_said_to_be_judged(published: Path) -> None:
    rows = json.loads((published / "data/results.json").read_text("utf-8"))["results"]
    assert {row["verdict"] for row in rows if row["source"]} == {"not judged here"}
    assert {row["kind"] for row in rows} == {"bundle", "reported", "recomputed"}
    board = (published / "resnet50/inference.html").read_text("utf-8")
    assert "Judge" not in board and "Signature" not in board


def test_recomputed_rows_have_their_source_on_a_page_that_the_index_links(published: Path) -> None:
    """They stood on the index too, which was 48,000 pixels long on a phone."""
    linked = [path for path in links(published / "index.html") if path.parent.name == "resnet50"]
    boards = "".join(html.unescape(path.read_text("utf-8")) for path in linked)
    rows = [
        row
        for row in json.loads((published / "data/results.json").read_text("utf-8"))["results"]
        if row["kind"] == "recomputed"
    ]
    assert rows and all(row["source"] in boards for row in rows)


def links(path: Path) -> set[Path]:
    return {
        (path.parent / link).resolve()
        for link in re.findall(
            r'<(?:a href|meta property="og:image" content)="([^"#]+)', path.read_text("utf-8")
        )
    }


def test_every_file_of_a_site_can_be_reached_and_every_page_leads_back(site: Path) -> None:
    """Bundles, schema and hashes were in the folder, and no page led to them; a report had no way
    out.
    """
    pages = list(site.rglob("*.html"))
    reached = {path for page in pages for path in links(page)}
    files = {
        path
        for path in site.rglob("*")
        if path.is_file() and path.name not in (".podium-site", "results.parquet")
    }
    assert files - reached == set()
    assert all((site / "index.html").resolve() in links(page) for page in pages)
    (report,) = site.glob("r/*/index.html")
    (bundle,) = site.glob("bundles/*")
    assert bundle in links(report) and bundle in links(site / "resnet50/training.html")


@pytest.mark.slow
def test_without_bundles_no_page_links_them(bundle: Path, tmp_path: Path) -> None:
    run(bundle, "-o", tmp_path / "site", "--bundles", "none")
    assert not [
        path
        for page in (tmp_path / "site").rglob("*.html")
        for path in links(page)
        if not path.is_file()
    ]


@pytest.mark.slow
def test_linked_bundles_take_no_second_copy(bundle: Path, tmp_path: Path) -> None:
    """A site of many bundles doubled what they take on the disk."""
    mine = Path(shutil.copyfile(bundle, tmp_path / "mine.tar.zst"))
    run(mine, "-o", tmp_path / "site", "--bundles", "link")
    (linked,) = (tmp_path / "site/bundles").iterdir()
    assert linked.samefile(mine) and linked in links(tmp_path / "site/resnet50/training.html")
    run(mine, "-o", tmp_path / "site", "--bundles", "copy")
    assert mine.stat().st_nlink == 1 and mine.read_bytes() == bundle.read_bytes()


def test_a_bundle_of_another_file_system_is_not_linked(bundle: Path, tmp_path: Path) -> None:
    """Exit 2 with what helps, and no site is begun."""
    elsewhere = Path("/dev/shm")
    if not elsewhere.is_dir() or elsewhere.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("there is no second file system at /dev/shm")
    with TemporaryDirectory(dir=elsewhere) as other:
        away = shutil.copyfile(bundle, Path(other) / "away.tar.zst")
        with pytest.raises(RequestError, match="--bundles copy copies it"):
            run(away, "-o", tmp_path / "site", "--bundles", "link")
    assert not list(tmp_path.iterdir())


def test_mlcommons_rows_have_the_keys_of_their_summaries(site: Path) -> None:
    """The names are those of summary_results.json of inference v5.1, power's among them; a reader
    of that finds none missing.
    """
    (row,) = json.loads((site / "data/mlcommons.json").read_text("utf-8"))
    assert row.keys() == MLCOMMONS and len(MLCOMMONS) == 36
    (told,) = (
        each
        for each in json.loads((site / "data/results.json").read_text("utf-8"))["results"]
        if each["scenario"]
    )
    assert (row["Performance_Result"], row["Scenario"], row["Submitter"]) == (
        told["value"] / 1e6,
        told["scenario"],
        told["org"],
    )
    assert (
        row["Performance_Units"] == "Latency (ms)"
        and row["compliance"] == 1
        and row["Processor"]
        and row["host_processors_per_node"] >= 1
    )
    assert (site / row["Location"]).is_file() and (site / row["Details"]).is_file()


def test_parquet_says_what_json_says(site: Path) -> None:
    """Whoever has many sites reads this one."""
    parquet = pytest.importorskip("pyarrow.parquet", reason="the extra `parquet` is not installed")
    told = json.loads((site / "data/results.json").read_text("utf-8"))["results"]
    assert parquet.read_table(site / "data/results.parquet").to_pylist() == told


@pytest.mark.slow
def test_a_target_with_dots_or_behind_a_link_is_written_and_stays_what_it_is(
    bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`twice/../twice/` moved the earlier site away and had no name for the new one; `.` was a
    traceback; a link became a folder.
    """
    site, other = tmp_path / "site", tmp_path / "link"
    run(bundle, "-o", site)
    whole = content(site)
    run(bundle, "-o", f"{site}/../site/")
    assert content(site) == whole
    site.joinpath("index.html").write_text("old")
    monkeypatch.chdir(site)
    run(bundle, "-o", ".")
    other.symlink_to(site)
    run(bundle, "-o", other)
    assert (
        content(site) == whole
        and other.is_symlink()
        and sorted(path.name for path in tmp_path.iterdir()) == ["link", "site"]
    )


@pytest.mark.slow
def test_what_others_put_into_a_site_stays(site: Path, bundle: Path) -> None:
    """A host's CNAME and .git were deleted with the earlier site."""
    for name in ("CNAME", ".git/HEAD"):
        (site / name).parent.mkdir(exist_ok=True)
        (site / name).write_text("mine")
    (site / "r" / "gone.html").write_text("an old page")
    (site / "data/SHA256SUMS").write_text(
        (site / "data/SHA256SUMS").read_text() + f"{'0' * 64}  r/gone.html\n"
    )
    run(bundle, "-o", site)
    assert (site / "CNAME").read_text() == (site / ".git/HEAD").read_text() == "mine" and not (
        site / "r" / "gone.html"
    ).exists()


def test_a_folder_in_the_way_is_not_deleted(bundle: Path, tmp_path: Path) -> None:
    """The folder for the unfinished site may be somebody's own."""
    mine = tmp_path / "site.partial" / "mine.txt"
    mine.parent.mkdir()
    mine.write_text("mine")
    with pytest.raises(RequestError, match="is in the way"):
        run(bundle, "-o", tmp_path / "site")
    assert mine.read_text() == "mine" and not (tmp_path / "site").exists()


@pytest.mark.slow
def test_a_site_that_cannot_take_its_place_leaves_the_earlier_one(
    site: Path, bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The earlier site was moved aside, and stayed there."""
    whole, original = content(site), Path.replace

    def replace(path: Path, target: Path) -> Path:
        if path.name.endswith("site.partial"):
            raise OSError(errno.EIO, "Input/output error")
        return original(path, target)

    monkeypatch.setattr(Path, "replace", replace)
    with pytest.raises(RequestError, match="not written"):
        run(bundle, "-o", site)
    assert content(site) == whole


@pytest.mark.slow
def test_neither_name_nor_place_of_a_bundle_changes_a_site(
    bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A publisher's folders are nobody's business; another spelling of a path gave other bytes."""
    run(bundle, "-o", tmp_path / "one")
    again = tmp_path / "elsewhere" / "b"
    again.parent.mkdir()
    shutil.copy(bundle, again)
    monkeypatch.chdir(again.parent)
    run("b", "-o", tmp_path / "two")
    assert content(tmp_path / "one") == content(tmp_path / "two")
    assert not [
        name
        for name, text in content(tmp_path / "one").items()
        if not name.startswith("bundles/") and str(bundle.parent).encode() in text
    ]


def test_a_site_without_its_list_of_files_is_refused_untouched(site: Path, bundle: Path) -> None:
    """What others put there could not be told from podium's own, and was deleted."""
    (site / "CNAME").write_text("mine")
    (site / "data/SHA256SUMS").unlink()
    before = content(site)
    with pytest.raises(
        RequestError, match="SHA256SUMS, which lists podium's own files, is missing"
    ):
        run(bundle, "-o", site)
    assert content(site) == before


def test_a_list_of_files_that_is_no_text_ends_nothing(site: Path, bundle: Path) -> None:
    (site / "data/SHA256SUMS").write_bytes(b"\xff\xfe\n")
    run(bundle, "-o", site)
    assert "index.html" in (site / "data/SHA256SUMS").read_text("utf-8") and sorted(
        path.name for path in site.parent.iterdir()
    ) == ["site"]


@pytest.mark.parametrize("title", ["", "  "])
def test_a_site_has_a_title(bundle: Path, tmp_path: Path, title: str) -> None:
    with pytest.raises(RequestError, match="must not be empty"):
        run(bundle, "-o", tmp_path / "site", "--title", title)


def test_a_name_that_is_too_long_is_a_sentence(bundle: Path, tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="too long"):
        run(bundle, "-o", tmp_path / ("n" * 300))


def test_a_page_names_its_card_by_the_address_that_it_will_have(
    bundle: Path, tmp_path: Path
) -> None:
    pytest.importorskip("resvg_py", reason="resvg-py is not installed")
    run(bundle, "-o", tmp_path / "site", "--url", "https://example.org/results/")
    for page in (tmp_path / "site").rglob("*.html"):
        (address,) = re.findall(r'"og:image" content="([^"]+)"', page.read_text("utf-8"))
        path = address.removeprefix("https://example.org/results/")
        assert path != address
        assert (tmp_path / "site" / path).read_bytes().startswith(b"\x89PNG")


def test_without_the_library_of_png_a_site_has_no_cards_and_says_so(
    bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "resvg_py", None)
    raster.load_svg_renderer.cache_clear()
    result = CliRunner().invoke(publish, [str(bundle), "-o", str(tmp_path / "site")])
    assert result.exit_code == 0
    assert "without some cards: PNG needs resvg-py" in result.output
    assert not list((tmp_path / "site").rglob("*.png"))
    assert "og:image" not in (tmp_path / "site" / "index.html").read_text("utf-8")


@pytest.mark.parametrize(
    "address", ["example.org", "ftp://example.org", "https://", "https://a/?b"]
)
def test_an_address_that_is_none_is_refused(bundle: Path, tmp_path: Path, address: str) -> None:
    with pytest.raises(RequestError, match="not an address"):
        run(bundle, "-o", tmp_path / "site", "--url", address)

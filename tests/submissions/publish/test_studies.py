"""Studies on a site: listed apart from the results, with their points in throughput against
latency.
"""

import json
import re
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from submissions.commands.publish import publish
from submissions.publish.site import SiteEntry, describe_site_contents
from suite.errors import JudgedError

BASE = Path(__file__).resolve().parents[2] / "examples" / "base"
SWEEP = BASE / "study" / "studies" / "toy"
OTHERS = (
    BASE / "curve" / "studies" / "resnet50-curve-box",
    BASE / "peak" / "studies" / "resnet50-peak",
    BASE / "speed" / "studies" / "resnet50-speed",
)


def run(*words: str | Path) -> Result:
    return CliRunner().invoke(
        publish, [*map(str, words)], catch_exceptions=False, standalone_mode=False
    )


def test_a_sweep_is_drawn_and_listed_beside_results(bundle: Path, tmp_path: Path) -> None:
    """By its own name: the publisher's folders stay private."""
    site = tmp_path / "site"
    assert run(bundle, SWEEP, "-o", site).exit_code == 0
    index = (site / "index.html").read_text("utf-8")
    assert "from 1 bundle, and 1 study." in index and "Sweep of toy" in index
    (page,) = re.findall(r'<a href="(r/[^"]+)">toy</a>', index)
    assert "Sweep of toy" in (site / page).read_text("utf-8")
    assert 'href="tradeoff.html"' in index and (site / "tradeoff.html").is_file()
    points = [
        point
        for each in json.loads((site / "data" / "tradeoff.json").read_text())["figures"]
        for point in each["points"]
    ]
    assert [(each["source"], each["workload"], each["batch"]) for each in points] == [
        ("toy", "toy", 8)
    ]
    rows = json.loads((site / "data" / "results.json").read_text())
    assert "toy" not in json.dumps(rows), "a study is no result"
    for path in site.rglob("*.*"):
        if path.suffix in (".html", ".json", ".csv"):
            assert str(SWEEP.parent) not in path.read_text("utf-8"), path


def test_a_site_tells_how_much_it_has_of_each_kind() -> None:
    """On its card, too, where a site of trees alone had no results."""
    study = SiteEntry(name="toy", path=SWEEP, is_study=True)
    assert describe_site_contents([], 0, 0) == ["0 results from 0 bundles"]
    assert describe_site_contents([], 0, 2) == ["2 results trees"]
    assert describe_site_contents([study, study], 1, 1) == [
        "1 results tree",
        "1 result from 0 bundles",
        "2 studies",
    ]


def test_every_kind_of_study_has_a_page(tmp_path: Path) -> None:
    site = tmp_path / "site"
    assert run(*OTHERS, "-o", site).exit_code == 0
    index = (site / "index.html").read_text("utf-8")
    assert "3 studies." in index and "0 results" not in index
    pages = re.findall(r'<a href="(r/[^"]+)">resnet50-', index)
    assert len(pages) == 3 and all((site / page).is_file() for page in pages)
    assert not (site / "tradeoff.html").exists(), "one curve alone has nothing beside it"


def test_a_broken_study_is_left_out_and_is_no_point(tmp_path: Path) -> None:
    study = tmp_path / "toy"
    shutil.copytree(SWEEP, study)
    table = study / "study.json"
    document = json.loads(table.read_text())
    document["runs"].pop()
    table.write_text(json.dumps(document))
    with pytest.raises(JudgedError, match=r"toy: Not compliant: study\."):
        run(study, "-o", tmp_path / "site")
    assert "Left out" in (tmp_path / "site" / "index.html").read_text("utf-8")
    assert not (tmp_path / "site" / "data" / "tradeoff.json").exists()


def test_a_part_of_a_study_is_told_to_be_one(tmp_path: Path) -> None:
    """podium pack, which seals results, seals no study."""
    with pytest.raises(JudgedError, match="a part of a study; publish its folder"):
        run(SWEEP / "study.json", "-o", tmp_path / "site")

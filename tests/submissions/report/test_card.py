"""The card of a result: what it says, in any script, that a result that does not count has no
number on it, and that PNG without its library is one sentence.
"""

import json
import re
import shutil
import struct
import sys
import time
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from changed_results import change_result
from click.testing import CliRunner

from submissions.commands.report import report
from submissions.compare.compared_results import read_compared_result
from submissions.report import build, pictures
from submissions.report.document import Axis, Chart, Document, Line, Section, Tile
from submissions.report.drawing import card, raster
from submissions.report.sections.headlines import format_tile_note
from submissions.result_index import open_results
from suite.errors import JudgedError, MissingError, RequestError

BASE = Path(__file__).resolve().parents[2] / "examples" / "base"
SCRIPTS = ("Тест", "日本電算", "حاسوب", "संगणक", "e\u0301cole", "<b>&\"'")


def run(*words: object) -> str:
    return str(
        CliRunner()
        .invoke(report, [*map(str, words)], catch_exceptions=False, standalone_mode=False)
        .output
    )


def texts(svg: Path) -> list[str]:
    return [each.text or "" for each in ElementTree.fromstring(svg.read_bytes()).iter()]


def test_every_number_of_a_card_is_in_the_json(bundle: Path, tmp_path: Path) -> None:
    target = tmp_path / "card.svg"
    assert run(bundle, "--card", target) == f"card: {target}\n", "no page was asked for"
    (part,) = json.loads(run(bundle, "--format", "json"))["parts"]
    told = " ".join(texts(target))
    assert part["verdict"] in told and part["seal"][: card.SEAL_DIGITS] in told
    assert part["headlines"][0]["date"] == "2023-11-14" and "2023-11-14" in told
    for tile in part["tiles"]:
        assert tile["value"] in told and tile["name"] in told
    known = json.dumps(part, ensure_ascii=False)
    for number in re.findall(r"\d[\d,.]*\d", " ".join(texts(target)[1:])):
        assert number in known, number


def test_a_card_has_its_size_and_stands_alone(bundle: Path, tmp_path: Path) -> None:
    target = tmp_path / "card.svg"
    run(bundle, "--card", target)
    root = ElementTree.fromstring(target.read_bytes())
    assert (root.get("width"), root.get("height")) == ("1200", "630")
    assert "http" not in target.read_text("utf-8").replace("http://www.w3.org/2000/svg", "")


def test_a_result_that_does_not_count_is_shown_as_such(tree: Path, tmp_path: Path) -> None:
    log = next(tree.glob("open/acme/results/*/resnet/result_0.txt"))
    log.write_text(log.read_text("utf-8").replace('"seed"', '"sead"'), "utf-8")
    target = tmp_path / "card.svg"
    with pytest.raises(JudgedError):
        run(tree, "--card", target)
    told = texts(target)
    assert "Not compliant" in told and card.NOT_COMPLIANT_VALUE in told
    training = told.index("Time to train")
    assert told[training + 1] == card.NOT_COMPLIANT_VALUE, "in place of its value"


def test_a_damaged_bundle_has_no_number(bundle: Path, tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.tar.zst"
    content = bytearray(bundle.read_bytes())
    content[len(content) // 2] ^= 1
    damaged.write_bytes(content)
    target = tmp_path / "card.svg"
    with pytest.raises(JudgedError):
        run(damaged, "--card", target)
    assert "Broken" in texts(target) and not any("samples/s" in each for each in texts(target))


@pytest.mark.parametrize("name", SCRIPTS)
def test_names_in_any_script_fit(name: str) -> None:
    svg = card.draw_card("Valid", card.Tone.GOOD, name * 60, [name * 80], card.Markup(""), name)
    told = [each.text or "" for each in ElementTree.fromstring(svg).iter()]
    (heading,) = [each for each in told if each.startswith(name) and each.endswith("\u2026")][:1]
    assert card.measure_text(heading, card.MIN_TITLE_SIZE) <= card.CARD_INNER_WIDTH
    assert not card.unicodedata.combining(heading[-2]) or heading[-3:-1] in name, "no torn letter"


def test_what_a_tile_has_no_room_for_ends_with_an_ellipsis() -> None:
    """Four metrics with their targets were cut behind a comma, as if there were no more."""
    quality = ", ".join(f"metric{number} 0.9947 of 0.9847" for number in range(9))
    tile = Tile(name="Offline", value="9", unit="tokens/s", note=f"not tested. {quality}")
    told = re.findall("<text[^>]*>([^<]*)", card.draw_card_tile(tile, 0, 240))
    assert len(told) == 3 + card.MAX_TILE_LINES and told[-1].endswith("metric2\u2026")


def test_systems_of_one_card_can_be_told_apart() -> None:
    """Five tiles had room for the first half of a name, which all of podium's share."""
    for name in ("2c-intel-xeon-processor-onnxruntime-fp32", "2c-intel-xeon-processor-torch-fp32"):
        tile = Tile(name="Offline", value="9", unit="samples/s", note="one run", origin=name)
        told = re.findall("<text[^>]*>([^<]*)", card.draw_card_tile(tile, 0, 200))
        assert "".join(told[4:]) == name


def test_a_card_says_that_the_machine_was_disturbed(bundle: Path) -> None:
    """A green Valid stood alone above figures that the judge had warned about."""
    (part,) = build.judge_and_build_report([bundle])[0].parts
    calm = [each | {"noise": []} for each in part.headlines]
    shaken = [each | {"noise": ["noise.others"]} for each in part.headlines]
    for headlines, told in (
        (calm, ""),
        (shaken, "disturbed machine"),
        ([shaken[0], *calm[1:]], f"disturbed machine: 1 of {len(calm)} results"),
    ):
        svg = card.draw_result_card(replace(part, headlines=tuple(headlines)))
        words = re.findall("<text[^>]*>([^<]*)", svg)
        assert [word for word in words if "disturbed" in word] == list(filter(None, [told]))


def test_tries_and_counts_stand_on_a_tile(bundle: Path) -> None:
    """Nine tries at a rate, and `unended 1.0000` as if it were an accuracy."""
    with open_results(bundle) as results:
        side = read_compared_result(bundle, results[-1])
    several = change_result(
        side,
        attempts=9,
        noise=("noise.others",),
        accuracy={"rouge1": 0.42, "gen_len": 14202.0, "unended": 1.0},
        target={"rouge1": 0.4},
    )
    told = format_tile_note(several)
    assert "one run, no interval, 9 tries, disturbed" in told
    assert "rouge1 0.4200 of 0.4000, 14,202 characters generated" in told
    assert "1 answers cut at their limit" in told and "1.0000" not in told


def test_the_card_of_a_study_is_about_the_study_alone(tmp_path: Path) -> None:
    target = tmp_path / "card.svg"
    run(next((BASE / "study" / "studies").iterdir()), "--card", target)
    told = " ".join(texts(target))
    assert "by batch size" in told and "podium explain" not in told


def test_without_its_library_png_is_one_sentence(
    bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "resvg_py", None)
    raster.load_svg_renderer.cache_clear()
    target = tmp_path / "card.png"
    with pytest.raises(MissingError, match=r"^PNG needs resvg-py: pip install \S.*\[pictures\]'$"):
        run(bundle, "--card", target)
    assert not target.exists()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--card", "card.jpg"), "card.jpg: a picture is .svg or .png, by the end of its name"),
        (("--card", "no/card.svg"), "--card no/card.svg: folder no does not exist"),
        (("--figures", "no/figures"), "--figures no/figures: folder no does not exist"),
    ],
)
def test_bad_targets_are_refused(
    bundle: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, str],
    told: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RequestError) as caught:
        run(bundle, *words)
    assert str(caught.value) == told
    assert not list(tmp_path.iterdir())


def test_a_card_shows_one_path(bundle: Path, tmp_path: Path) -> None:
    other = shutil.copy(bundle, tmp_path / "other.tar.zst")
    with pytest.raises(RequestError, match="shows one path, and 2 were given"):
        run(bundle, other, "--card", tmp_path / "card.svg")


def test_figures_are_files_of_their_own(recorded: Path, tmp_path: Path) -> None:
    folder = tmp_path / "figures"
    told = run(recorded, "--figures", folder)
    document = json.loads(run(recorded, "--format", "json"))
    count = len(list(folder.iterdir()))
    assert told == f"figures: {count} in {folder}\n" and count > 3
    names = {each.name for each in folder.iterdir()}
    sections = document["parts"][0]["sections"]
    assert {
        f"{chart['id'].casefold()}.svg"
        for section in sections
        for each in (section, *section["parts"])
        for chart in each["charts"]
    } == names
    for each in folder.iterdir():
        assert (
            ElementTree.fromstring(each.read_bytes()).find("{http://www.w3.org/2000/svg}style")
            is not None
        )


def test_figures_of_systems_in_other_scripts_do_not_replace_each_other(tmp_path: Path) -> None:
    """A file name keeps no letter of them, and the last figure was the only one."""
    charts = tuple(
        Chart(
            id=f"latency-{system}",
            title="",
            description="",
            x=Axis(name="x", unit=""),
            y=Axis(name="y", unit=""),
            lines=(Line(name="", points=((0.0, 0.0), (1.0, 1.0))),),
        )
        for system in ("日本-fp32", "中国-fp32", "訓練-fp32", "x" * 255)
    )
    document = Document(
        title="",
        parts=(),
        sections=(Section(id="s", title="", charts=charts),),
        legend=(),
        version="",
    )
    pictures.PictureRequest(figures=tmp_path).write_files(document)
    made = {each.name: each.read_text("utf-8") for each in tmp_path.iterdir()}
    numbered = ["latency-fp32-2.svg", "latency-fp32-3.svg", "latency-fp32.svg"]
    assert sorted(made)[:3] == numbered
    assert len(made) == 4, "a name that is too long for a file system is cut"
    assert "日本" in made["latency-fp32.svg"]


def test_png_has_its_size_and_is_made_in_time(bundle: Path, tmp_path: Path) -> None:
    pytest.importorskip("resvg_py", reason="resvg-py is not installed")
    raster.load_svg_renderer.cache_clear()
    target = tmp_path / "card.png"
    before = time.process_time()
    run(bundle, "--card", target)
    assert time.process_time() - before < 2
    content = target.read_bytes()
    assert struct.unpack(">II", content[16:24]) == (1200, 630)


def test_a_letter_without_a_font_is_named_and_not_drawn_as_a_box(tmp_path: Path) -> None:
    pytest.importorskip("resvg_py", reason="resvg-py is not installed")
    raster.load_svg_renderer.cache_clear()
    svg = card.draw_card(
        "Valid", card.Tone.GOOD, "box \ue123", [], card.Markup(""), "nobody has this letter"
    )
    with pytest.raises(MissingError, match="no font of this machine has \ue123; install one"):
        pictures.write_picture(tmp_path / "card.png", svg, card.CARD_WIDTH)
    pictures.write_picture(tmp_path / "card.svg", svg, card.CARD_WIDTH)
    assert "\ue123" in (tmp_path / "card.svg").read_text("utf-8")

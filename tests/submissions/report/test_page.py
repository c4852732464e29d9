"""The page: complete, safe with anybody's text, made from the JSON alone, and the same bytes each
time.
"""

import json
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path

import jsonschema
import pytest
from system_records import put_system

from submissions.report import build
from submissions.report.command import format_document_json, render_document_html
from submissions.report.document import (
    Document,
    Section,
    build_document_schema,
    convert_document_to_data,
    encode_invisible_characters,
    parse_document_data,
)
from submissions.report.exports import (
    encode_markdown_text,
    format_trace_events,
    iterate_section_charts,
    render_document_markdown,
)
from submissions.report.page import compute_policy_hash, read_page_asset

SCHEMA = Path(__file__).resolve().parents[3] / "submissions" / "report" / "report-document.json"
HOSTILE = "<img src=x onerror=alert(1)>"
TURNED = "a\u202eb\u0007c"


class Tags(HTMLParser):
    """Collects what a browser would make of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def parsed(page: str) -> Tags:
    tags = Tags()
    tags.feed(page)
    return tags


def made(path: Path) -> Document:
    return parse_document_data(convert_document_to_data(build.judge_and_build_report([path])[0]))


def all_charts(document: Document) -> list[str]:
    return [
        chart.id
        for part in document.parts
        for section in part.sections
        for chart in iterate_section_charts(section)
    ]


@pytest.mark.slow
def test_a_page_loads_nothing_and_allows_nothing_else(bundle: Path) -> None:
    page = render_document_html(made(bundle))
    tags = parsed(page)
    assert not [
        tag for tag, _ in tags.found if tag in ("link", "iframe", "object", "embed", "form", "base")
    ]
    for _, attributes in tags.found:
        assert not [name for name in attributes if name.startswith("on") or name == "style"]
        assert not [
            value
            for name, value in attributes.items()
            if name in ("src", "href")
            and value
            and not value.startswith(("#", "data:image/jpeg;base64,"))
        ]
    policy = next(
        attributes["content"]
        for _, attributes in tags.found
        if attributes.get("http-equiv") == "Content-Security-Policy"
    )
    assert "default-src 'none'" in str(policy)
    scripts = read_page_asset("report.js") + read_page_asset("save.js")
    for text in (read_page_asset("report.css"), scripts):
        assert compute_policy_hash(text) in str(policy)
    assert len(scripts) <= 4_000


@pytest.mark.parametrize(
    "text", [HOSTILE, TURNED, "</style><script>alert(1)</script>", "{{ 7 * 7 }}"]
)
def test_foreign_text_is_shown_as_text(tree: Path, text: str) -> None:
    """A bundle is somebody else's: what stands in its descriptions must not become markup, nor turn
    the words around.
    """
    for path in tree.glob("open/acme/systems/*.json"):
        document = json.loads(path.read_text("utf-8"))
        path.write_text(
            json.dumps(
                document
                | {
                    "host_processor_model_name": text,
                    "accelerator_model_name": text,
                    "accelerators_per_node": 3,
                }
            ),
            "utf-8",
        )
    page = render_document_html(made(tree))
    tags = parsed(page)
    assert not [1 for tag, attributes in tags.found if tag == "img" or "onerror" in attributes]
    assert sum(tag == "script" for tag, _ in tags.found) == 1
    assert encode_invisible_characters(text) in "".join(tags.text)
    assert "\u202e" not in page and "\u0007" not in page


@pytest.mark.slow
def test_each_figure_has_title_description_and_numbers(recorded: Path) -> None:
    document = made(recorded)
    page = render_document_html(document)
    assert len(all_charts(document)) >= 6
    assert (
        page.count('<figure class="figure"')
        == page.count("<desc")
        == page.count("Numbers of this figure")
        == len(all_charts(document))
    )
    assert len(set(all_charts(document))) == len(all_charts(document)), (
        "an id that stands twice names two figures"
    )


@pytest.mark.slow
def test_ids_are_unique(recorded: Path) -> None:
    ids = [
        str(attributes["id"])
        for _, attributes in parsed(render_document_html(made(recorded))).found
        if "id" in attributes
    ]
    assert sorted(set(ids)) == sorted(ids)


@pytest.mark.slow
def test_ids_are_unique_on_a_page_of_two_results(recorded: Path, tmp_path: Path) -> None:
    """A run before a change and one after it: a figure had the description of the other one's."""
    other = Path(shutil.copytree(recorded, tmp_path / "other"))
    document, *_ = build.judge_and_build_report([recorded, other])
    page = render_document_html(document)
    ids = [str(attributes["id"]) for _, attributes in parsed(page).found if "id" in attributes]
    assert sorted(set(ids)) == sorted(ids) and len(ids) > 20
    named = [
        each
        for _, attributes in parsed(page).found
        for each in str(attributes.get("aria-labelledby", "")).split()
    ]
    assert named and set(named) <= set(ids)


@pytest.mark.slow
def test_every_number_of_a_figure_is_in_the_json(recorded: Path) -> None:
    """The page is made from the JSON: whoever has the one must have the other."""
    document, *_ = build.judge_and_build_report([recorded])
    again = parse_document_data(json.loads(format_document_json(document)))
    assert render_document_html(again) == render_document_html(
        parse_document_data(convert_document_to_data(document))
    )


@pytest.mark.slow
def test_equal_input_gives_equal_bytes(recorded: Path) -> None:
    assert render_document_html(made(recorded)) == render_document_html(made(recorded))


@pytest.mark.slow
def test_the_json_fits_its_published_schema(recorded: Path) -> None:
    """After a change of the document: `python -m submissions.report` writes the schema anew."""
    assert json.loads(SCHEMA.read_text("utf-8")) == json.loads(json.dumps(build_document_schema()))
    jsonschema.Draft202012Validator(build_document_schema()).validate(
        json.loads(format_document_json(build.judge_and_build_report([recorded])[0]))
    )


@pytest.mark.slow
def test_a_bundle_without_records_says_what_is_not_known(bundle: Path) -> None:
    text = "".join(parsed(render_document_html(made(bundle))).text)
    for missing in ("There is no queries.npy", "There is no telemetry", "There is no ledger"):
        assert missing in text


@pytest.mark.slow
def test_records_are_drawn_and_no_longer_missed(recorded: Path) -> None:
    text = "".join(parsed(render_document_html(made(recorded))).text)
    assert "Latency over time" in text and "CPU utilisation" in text
    assert "There is no queries.npy" not in text
    assert "p90 2 ms" in text, "the percentile that the scenario is judged by is marked"


@pytest.mark.slow
def test_batches_of_one_size_are_said(recorded: Path) -> None:
    """Without a chart and without a word, nobody knows whether batches were recorded at all."""
    assert "Every batch had 1 sample." in "".join(parsed(render_document_html(made(recorded))).text)


def test_a_broken_record_is_said_and_the_rest_is_drawn(recorded: Path) -> None:
    (path,) = recorded.glob("open/*/results/*/*/*/performance/run_1/queries.npy")
    path.write_bytes(b"nonsense")
    text = "".join(parsed(render_document_html(made(recorded))).text)
    assert "queries.npy cannot be read" in text
    assert "top1 over time" in text


@pytest.mark.slow
def test_the_verdict_stands_first_and_says_what_it_covers(bundle: Path) -> None:
    text = " ".join("".join(parsed(render_document_html(made(bundle))).text).split())
    assert (
        text.index("Valid")
        < text.index("Training")
        < text.index("Findings")
        < text.index("Provenance")
    )
    assert "No file can prove" in text
    assert "Result not verified by MLCommons Association." in text


def test_one_run_has_no_interval(bundle: Path) -> None:
    tiles = made(bundle).parts[0].tiles
    assert tiles and all("one run, no interval" in tile.note for tile in tiles)


def test_the_result_is_told_from_the_measured_percentile(recorded: Path) -> None:
    """Early stopping estimates a percentile above the measured one: two figures called p90 leave
    the reader to guess.
    """
    document = made(recorded)
    tile = next(tile for tile in document.parts[0].tiles if tile.name == "SingleStream")
    assert "LoadGen's early-stopping estimate" in tile.note
    (section,) = [
        part
        for each in document.parts[0].sections
        for part in each.parts
        if part.id.startswith("serving-")
    ]
    table = next(table for table in section.tables if table.title.startswith("Performance runs"))
    assert (
        table.columns[1] == "result: early-stopping estimate of p90"
        and table.columns[4] == "LoadGen's p90 ms"
    )
    assert [mark.name.split()[0] for mark in section.charts[0].marks] == [
        "p50",
        "p90",
        "result",
    ]
    assert f"{tile.value} ms is LoadGen's early-stopping estimate" in section.intro.replace(
        "This", f"{tile.value} ms"
    )


def test_a_tampered_bundle_gets_a_page_that_says_so(bundle: Path, tmp_path: Path) -> None:
    content = bytearray(bundle.read_bytes())
    content[len(content) // 2] ^= 1
    broken = tmp_path / "broken.tar.zst"
    broken.write_bytes(content)
    document, problems, _ = build.judge_and_build_report([broken])
    assert problems and document.parts[0].verdict == "Broken"
    assert "nothing in it can be relied on" in render_document_html(
        parse_document_data(convert_document_to_data(document))
    )


@pytest.mark.parametrize("length", [100, 5_000])
def test_a_cut_bundle_is_not_said_to_be_judged(bundle: Path, tmp_path: Path, length: int) -> None:
    """The judge has not read a file that could not be unpacked, and it broke no rule of a round;
    its problem is one, and was listed three times.
    """
    (tmp_path / "cut.tar.zst").write_bytes(bundle.read_bytes()[:length])
    document, problems, _ = build.judge_and_build_report([tmp_path / "cut.tar.zst"])
    text = render_document_markdown(parse_document_data(convert_document_to_data(document)))
    assert problems == [f"{tmp_path / 'cut.tar.zst'}: broken"]
    assert (
        "Not compliant" not in text
        and "checked every file" not in text
        and "podium judged nothing in it" in text
    )
    (section,) = document.parts[0].sections
    assert [row[0] for table in section.tables for row in table.rows] == ["bundle.archive"]


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("a<b>c", "a&#60;b&#62;c"),
        ("a|b", "a&#124;b"),
        ("# x", "\\# x"),
        ("a\\*b_c", "a\\\\\\*b\\_c"),
        ("&#60;", "&#38;\\#60;"),
    ],
)
def test_markdown_escapes_each_letter_once(text: str, written: str) -> None:
    """A `<` became `&\\#60;`, which a reader sees as such."""
    assert encode_markdown_text(text) == written


def test_two_paths_stand_beside_one_another(bundle: Path, tree: Path) -> None:
    document, *_ = build.judge_and_build_report([bundle], [tree])
    assert [section.id for section in document.sections if section.id == "comparison"] == [
        "comparison"
    ]
    assert "not tested" in render_document_html(
        parse_document_data(convert_document_to_data(document))
    )


def test_markdown_holds_the_verdict_and_no_markup_of_others(tree: Path) -> None:
    document, *_ = build.judge_and_build_report([tree])
    text = render_document_markdown(parse_document_data(convert_document_to_data(document)))
    assert "Valid" in text and "| Time to train |" in text
    assert "&#60;" not in text
    assert not re.search(r"<(?!br)", text)


def test_the_trace_has_counters_in_microseconds(recorded: Path) -> None:
    events = json.loads(format_trace_events(made(recorded)))["traceEvents"]
    counters = [event for event in events if event["ph"] == "C"]
    assert {"median", "this run"} <= {event["name"] for event in counters}
    assert max(event["ts"] for event in counters if event["name"] == "median") == pytest.approx(
        5e6, rel=0.05
    ), "500 queries, one each 10 ms"


def test_a_page_stays_small(recorded: Path) -> None:
    """Without pictures a page of one workload has to stay below 400 kB."""
    assert len(render_document_html(made(recorded)).encode()) < 400_000


def test_sections_nest_at_most_three_deep(recorded: Path) -> None:
    def depth(section: Section) -> int:
        return 1 + max((depth(part) for part in section.parts), default=0)

    assert max(depth(section) for part in made(recorded).parts for section in part.sections) <= 3


def contrast(one: str, other: str) -> float:
    """WCAG 2.2, contrast ratio."""
    light = sorted((luminance(one), luminance(other)))
    return (light[1] + 0.05) / (light[0] + 0.05)


def luminance(colour: str) -> float:
    """WCAG 2.2, relative luminance."""
    colour = colour if len(colour) == 6 else "".join(letter * 2 for letter in colour)
    parts = [int(colour[place : place + 2], 16) / 255 for place in (0, 2, 4)]
    linear = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("theme", [":root{", ":root[data-theme=dark]{"])
def test_colours_can_be_told_from_their_ground(theme: str) -> None:
    """axe cannot judge text within SVG, so the palette is judged here: 4.5 for text, 3 for lines.
    Source: WCAG 2.2, 1.4.3 and 1.4.11.
    """
    block = read_page_asset("report.css").partition(theme)[2].partition("}")[0]
    colours = dict(re.findall(r"--([a-z0-9-]+):#([0-9a-f]{3,6})", block))
    for ground in ("page", "card"):
        for name in ("ink", "dim", "accent", "good", "bad", "caution"):
            assert contrast(colours[name], colours[ground]) >= 4.5, (name, ground)
        for series in range(6):
            assert contrast(colours[f"s{series}"], colours[ground]) >= 3, series
    for tone in ("good", "bad", "caution"):
        assert contrast(colours[tone], colours[f"{tone}-bg"]) >= 4.5, tone


def test_engines_of_a_bundle_stand_beside_one_another(tree: Path) -> None:
    """A bundle holds no table of podium precision: its report was silent about engines although all
    their results were in it.
    """
    own = tree / "open/acme/results/box-torch-fp32"
    other = tree / "open/acme/results/box-onnxruntime-int8"
    shutil.copytree(own / "resnet50", other / "resnet50")
    for path in other.rglob("system.json"):
        put_system(engine="onnxruntime", precision="int8")(path)
    shutil.copy(
        tree / "open/acme/systems/box-torch-fp32.json",
        tree / "open/acme/systems/box-onnxruntime-int8.json",
    )
    (section,) = [each for each in made(tree).parts[0].sections if each.id == "precision-resnet50"]
    (table,) = section.tables
    assert [row[:2] for row in table.rows] == [
        ("torch", "fp32"),
        ("onnxruntime", "int8"),
    ], "the first row is what the others are compared with"
    assert table.rows[0][6] == table.rows[1][6] != "-" and table.rows[1][3].endswith("+0.0000")
    assert {len(row) for row in table.rows} == {len(table.columns)}


def test_one_engine_is_not_compared_with_itself(tree: Path) -> None:
    assert not [each for each in made(tree).parts[0].sections if each.id.startswith("precision")]

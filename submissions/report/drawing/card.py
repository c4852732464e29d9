"""Draws a result as one picture to share: what was measured, the verdict, the headlines and where
they come from.
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from typing import Final

from markupsafe import Markup

from submissions.report.document import Part, Tile, Tone
from submissions.report.drawing.raster import TEXT_FONTS
from submissions.report.sections.findings import FINDINGS_SECTION_ID

CARD_WIDTH: Final = 1200
CARD_HEIGHT: Final = 630
"""Size of a card in pixels. Source: the Open Graph images that most sites scale to, 1.91 to 1."""
CARD_MARGIN: Final = 64
CARD_INNER_WIDTH: Final = CARD_WIDTH - 2 * CARD_MARGIN
INK, DIM, PAGE, FRAME = "#1b2430", "#566274", "#ffffff", "#dfe3e9"
TONE_COLOURS: Final = {
    Tone.GOOD: ("#12663f", "#e4f4ec"),
    Tone.BAD: ("#a1221b", "#fdeceb"),
    Tone.CAUTION: ("#7a4a00", "#fdf3df"),
    Tone.PLAIN: (DIM, "#f6f7f9"),
}
"""Text and area of a verdict, as in the light theme of the page."""
MAX_CARD_TILES: Final = 5
"""Headlines that a card has room for; more are counted."""
SEAL_DIGITS: Final = 16
CARD_PLACES: Final = ("System", "Machine")
CARD_MEANS: Final = ("Precision", "Engine", "Framework")
"""Facts of a report that a card shows, in this order."""
LETTER_WIDTHS: Final = dict.fromkeys(" .,:;'|!()[]iljftr-\u00b7", 0.4) | dict.fromkeys(
    "mwMW@%", 0.96
)
"""Widths of letters as shares of their size, in a wide font (DejaVu Sans, rounded up)."""
LETTER_WIDTH: Final = 0.66
"""Of all others but those below."""
WIDE_LETTER_WIDTH: Final = 1.05
"""Of letters that East Asian text sets in a square."""
BOLD_FACTOR: Final = 1.1
TILE_NOTE_SIZE: Final = 15
MAX_TILE_LINES: Final = 4
"""Lines below a value: its uncertainty, then its quality or its system."""
MIN_TITLE_SIZE: Final = 36.0
MAX_TEXT_LINES: Final = 5
BREAKS_IN_WORDS: Final = re.compile("(?<=[^-]-)(?=[^-])")
UNVERIFIED_LINE: Final = "Result not verified by MLCommons Association."
NOT_COMPLIANT_VALUE: Final = "not compliant"


def draw_result_card(part: Part) -> str:
    """Draw the part of a report about one path as an SVG that stands alone. A result that does not
    count is named without its value.
    """
    return draw_card(
        part.verdict,
        part.tone,
        part.title,
        list(iterate_card_facts(part)),
        Markup("").join(iterate_card_tiles(part.tiles) if part.tiles else iterate_card_text(part)),
        describe_card_origin(part),
        describe_disturbed_results(part),
    )


def draw_site_card(title: str, count: str, workloads: Sequence[str]) -> str:
    """Draw the card of a site: how much it holds, and of which workloads."""
    wrapped = wrap_card_text(", ".join(workloads), 26, CARD_INNER_WIDTH)
    lines = cut_card_lines(wrapped, MAX_TEXT_LINES)
    return draw_card("Judged again", Tone.PLAIN, title, [count], draw_card_lines(lines), "")


def draw_card(
    verdict: str,
    tone: Tone,
    title: str,
    facts: Sequence[str],
    body: Markup,
    origin: str,
    caution: str = "",
) -> str:
    """Draw a card: brand, caution and verdict, title, facts, body, and its origin at the bottom."""
    colour, area = TONE_COLOURS[tone]
    badge_width = BOLD_FACTOR * measure_text(verdict, 26) + 48
    left = CARD_WIDTH - CARD_MARGIN - badge_width
    size = max(
        MIN_TITLE_SIZE,
        min(50.0, 49.5 * CARD_INNER_WIDTH / (BOLD_FACTOR * max(measure_text(title, 50), 1))),
    )
    lines = [
        draw_card_text(CARD_MARGIN, 204 + 32 * number, each, 23, DIM)
        for number, each in enumerate(filter(None, facts))
    ]
    return str(
        Markup(
            '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {w} {h}" width="{w}" height="{h}"'
            ' role="img" font-family="{fonts}"><title>{title}: {verdict}</title>'
            '<rect width="{w}" height="{h}" fill="{page}"/><rect width="{w}" height="12"'
            ' fill="{colour}"/>\n{brand}{caution}\n<rect x="{left:.0f}" y="52" width="{badge:.0f}"'
            ' height="52" rx="26" fill="{area}" stroke="{colour}" stroke-width="2"/>{verdict_text}'
            "\n{heading}\n{facts}\n{body}\n{origin}\n{note}</svg>\n"
        ).format(
            w=CARD_WIDTH,
            h=CARD_HEIGHT,
            fonts=TEXT_FONTS,
            title=title,
            verdict=verdict,
            page=PAGE,
            colour=colour,
            area=area,
            left=left,
            badge=badge_width,
            brand=draw_card_text(CARD_MARGIN, 88, "podium", 30, INK, bold=True),
            caution=draw_card_text(
                left - 20, 87, caution, 22, TONE_COLOURS[Tone.CAUTION][0], anchor="end"
            ),
            verdict_text=draw_card_text(
                left + badge_width / 2, 87, verdict, 26, colour, bold=True, anchor="middle"
            ),
            heading=draw_card_text(CARD_MARGIN, 160, title, size, INK, bold=True),
            facts=Markup("\n").join(lines),
            body=body,
            origin=draw_card_text(CARD_MARGIN, 560, origin, 22, DIM),
            note=draw_card_text(
                CARD_MARGIN, 594, f"{UNVERIFIED_LINE} MLPerf-style; not an MLPerf result.", 20, DIM
            ),
        )
    )


def iterate_card_facts(part: Part) -> Iterator[str]:
    """Yield three lines: the system, its machine, and what it computes with."""
    facts = dict(part.facts)
    yield from (facts.get(name, "") for name in CARD_PLACES)
    yield ", ".join(dict.fromkeys(facts[name] for name in CARD_MEANS if facts.get(name)))


def iterate_card_tiles(tiles: Sequence[Tile]) -> Iterator[Markup]:
    """Yield the headlines in a row, each with its uncertainty."""
    shown = tiles[:MAX_CARD_TILES]
    gap = 18
    width = (CARD_INNER_WIDTH - gap * (len(shown) - 1)) / len(shown)
    for number, tile in enumerate(shown):
        yield draw_card_tile(tile, CARD_MARGIN + number * (width + gap), width)
    if more := len(tiles) - len(shown):
        text = f"and {more} more result{'s' * (more > 1)}"
        yield draw_card_text(CARD_WIDTH - CARD_MARGIN, 524, text, 20, DIM, anchor="end")


def draw_card_tile(tile: Tile, left: float, width: float) -> Markup:
    """Draw one headline; a result that does not count has no value."""
    bad = tile.tone is Tone.BAD
    colour, area = TONE_COLOURS[Tone.BAD if bad else Tone.PLAIN]
    room = width - 36
    if bad:
        value = NOT_COMPLIANT_VALUE
    else:
        value = tile.value
    size = min(46.0, 45.5 * room / (BOLD_FACTOR * measure_text(value, 46)))
    note, _, quality = tile.note.rpartition("; ")[2].partition(". ")
    below = [*wrap_card_text("" if bad else note, TILE_NOTE_SIZE, room)]
    below += wrap_card_text(tile.origin or ("" if bad else quality), TILE_NOTE_SIZE, room)
    below = cut_card_lines(below, MAX_TILE_LINES)
    return Markup(
        '<rect x="{:.1f}" y="290" width="{:.1f}" height="206" rx="14" fill="{}" stroke="{}"/>'
    ).format(left, width, area, colour if bad else FRAME) + Markup("").join(
        draw_card_text(left + 18, y, text, font, tint, bold=bold, room=room)
        for y, text, font, tint, bold in (
            (328, tile.name, 22, DIM, False),
            (382, value, size, colour if bad else INK, True),
            (414, "" if bad else tile.unit, 22, INK, False),
            *(
                (434 + 17 * number, line, TILE_NOTE_SIZE, DIM, False)
                for number, line in enumerate(below)
            ),
        )
    )


def iterate_card_text(part: Part) -> Iterator[Markup]:
    """Yield what a path without headlines has: why nothing counts, or its sections."""
    shown = [each for each in part.sections if each.id != FINDINGS_SECTION_ID]
    if shown and part.tone is Tone.GOOD:
        about = [each.intro or each.title for each in shown]
    else:
        about = [part.summary]
    lines = [line for text in about for line in wrap_card_text(text, 26, CARD_INNER_WIDTH)]
    yield draw_card_lines(cut_card_lines(lines, MAX_TEXT_LINES))


def draw_card_lines(lines: Sequence[str]) -> Markup:
    """Draw the lines of a card without headlines."""
    return Markup("").join(
        draw_card_text(CARD_MARGIN, 330 + 40 * number, line, 26, INK)
        for number, line in enumerate(lines)
    )


def describe_disturbed_results(part: Part) -> str:
    """Say how many of the results were measured on a disturbed machine; empty if none was."""
    disturbed = sum(bool(each["noise"]) for each in part.headlines)
    if not disturbed:
        return ""
    if disturbed == len(part.headlines):
        return "disturbed machine"
    return f"disturbed machine: {disturbed} of {len(part.headlines)} results"


def describe_card_origin(part: Part) -> str:
    """Say by which rules and when it was measured, and which seal holds it."""
    facts = dict(part.facts)
    date = max((each["date"] for each in part.headlines), default="")
    told = (
        facts.get("Round", ""),
        f"{facts['Division']} division" if facts.get("Division") else "",
        facts.get("Organisation", ""),
        date,
        f"seal {part.seal[:SEAL_DIGITS]}" if part.seal else "not sealed",
    )
    return " \u00b7 ".join(filter(None, told))


def draw_card_text(
    x: float,
    y: float,
    text: str,
    size: float,
    colour: str,
    *,
    bold: bool = False,
    anchor: str = "start",
    room: float = CARD_INNER_WIDTH,
) -> Markup:
    """Draw one line, cut where it would not fit in `room`; nothing if it is empty."""
    if not text:
        return Markup("")
    return Markup(
        '<text x="{:.1f}" y="{:.1f}" font-size="{:.1f}" fill="{}" text-anchor="{}"{}>{}</text>'
    ).format(
        x,
        y,
        size,
        colour,
        anchor,
        Markup(' font-weight="700"') if bold else "",
        cut_text(text, size * (BOLD_FACTOR if bold else 1), room),
    )


def measure_text(text: str, size: float) -> float:
    """Estimate the width of a text: letters that combine with the one before add nothing."""
    return size * sum(map(measure_letter, text))


def measure_letter(letter: str) -> float:
    """Estimate the width of a letter, as a share of its size."""
    if unicodedata.combining(letter):
        return 0.0
    if unicodedata.east_asian_width(letter) in "WF":
        return WIDE_LETTER_WIDTH
    return LETTER_WIDTHS.get(letter, LETTER_WIDTH)


def cut_text(text: str, size: float, room: float) -> str:
    """Cut a text that is wider than `room`, with an ellipsis, before a letter that stands alone."""
    if measure_text(text, size) <= room:
        return text
    kept = text
    while kept and measure_text(kept + "\u2026", size) > room:
        kept = kept[:-1]
    while kept and unicodedata.combining(text[len(kept)]):
        kept = kept[:-1]
    return kept.rstrip(" ,;") + "\u2026"


def cut_text_inside(text: str, size: float, room: float) -> str:
    """Cut the middle of a text that is wider than `room`, so that both of its ends stay."""
    if measure_text(text, size) <= room:
        return text
    head, tail = cut_text(text, size, room / 2), text
    while tail and measure_text(head + tail, size) > room:
        tail = tail[1:]
    while tail and unicodedata.combining(tail[0]):
        tail = tail[1:]
    return head + tail


def cut_card_lines(lines: Sequence[str], most: int) -> list[str]:
    """Keep the first lines, with an ellipsis if there are more."""
    if len(lines) <= most:
        return [*lines]
    return [*lines[: most - 1], lines[most - 1].rstrip(" ,;") + "\u2026"]


def wrap_card_text(text: str, size: float, room: float) -> list[str]:
    """Break a text into lines between its words, and behind hyphens in a word that is wider than a
    line, as names of systems are: their ends tell them apart.
    """
    lines: list[str] = []
    for word in text.split():
        if measure_text(word, size) <= room:
            parts = [word]
        else:
            parts = BREAKS_IN_WORDS.split(word)
        for number, part in enumerate(parts):
            if lines:
                joined = f"{lines[-1]}{'' if number else ' '}{part}"
            else:
                joined = part
            if lines and measure_text(joined, size) <= room:
                lines[-1] = joined
            else:
                lines.append(part)
    return lines

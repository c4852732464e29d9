"""Turns podium's own SVG into PNG with resvg (extra `pictures`): no browser, no window system."""

import re
from collections.abc import Callable
from functools import cache
from html import unescape
from typing import Any, Final

from suite.errors import MissingError
from suite.process.installation import format_install_command

TEXT_FONTS: Final = (
    "system-ui, 'Segoe UI', Roboto, 'Helvetica Neue', 'Noto Sans', 'DejaVu Sans',"
    " 'Liberation Sans', Arial, sans-serif"
)
"""Fonts of pictures that stand alone: resvg takes the first that the machine has by name."""
PICTURES_EXTRA: Final = "pictures"
NO_FONT_HINT: Final = (
    "no font to draw PNG with; install one, such as Debian's fonts-dejavu-core, or write an SVG"
)
UNDRAWN_LETTER: Final = "\U0010fffd"
"""The last letter for private use, which no font has: it is drawn as a missing letter is."""
DRAWN_TEXTS: Final = re.compile(r"<text\b[^>]*>([^<]*)</text>")
MAX_NAMED_LETTERS: Final = 12
PROBE: Final = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 24 24" width="24" height="24">'
    '<text x="4" y="18" font-size="14" font-family="{}">{}</text></svg>'
)


def render_svg_as_png(svg: str, width: int) -> bytes:
    """Draw an SVG `width` pixels wide; MissingError without resvg, without a font, or if no font
    has a letter of its texts.
    """
    draw = load_svg_renderer()
    if draw_letter("x") == draw_letter(" "):
        raise MissingError(NO_FONT_HINT)
    letters = sorted({each for text in DRAWN_TEXTS.findall(svg) for each in unescape(text)})
    if missing := [each for each in letters if is_missing_letter(each)]:
        named = "".join(missing[:MAX_NAMED_LETTERS]) + "\u2026" * (len(missing) > MAX_NAMED_LETTERS)
        raise MissingError(
            f"no font of this machine has {named}; install one, such as Debian's fonts-noto-core"
            " or fonts-noto-cjk, or write an SVG"
        )
    return bytes(draw(svg_string=svg, width=width))


@cache
def load_svg_renderer() -> Callable[..., Any]:
    """Return resvg's function; MissingError if it is not installed."""
    try:
        from resvg_py import svg_to_bytes
    except ImportError as error:
        install = format_install_command(PICTURES_EXTRA)
        raise MissingError(f"PNG needs resvg-py: {install}") from error
    draw: Callable[..., Any] = svg_to_bytes
    return draw


@cache
def draw_letter(letter: str) -> bytes:
    """Draw one letter with the fonts of a picture."""
    return bytes(load_svg_renderer()(svg_string=PROBE.format(TEXT_FONTS, letter)))


def is_missing_letter(letter: str) -> bool:
    """Return whether no font has a letter; every one has those of ASCII."""
    return not letter.isascii() and draw_letter(letter) == draw_letter(UNDRAWN_LETTER)

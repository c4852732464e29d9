"""The cards of a site: the pictures that other sites show where they link to its pages."""

from dataclasses import dataclass, field
from urllib.parse import urlsplit

from submissions.report.drawing.card import CARD_WIDTH
from submissions.report.drawing.raster import render_svg_as_png
from suite.errors import MissingError, RequestError


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteCards:
    """Draws cards; where one cannot be drawn, its page has none, and the reason is kept."""

    address: str = ""
    """Address of the site, without a slash at its end; empty if unknown."""
    problems: list[str] = field(default_factory=list)
    """Why cards are missing, each reason once."""

    def render_png(self, svg: str) -> bytes:
        """Draw a card as PNG, since other sites show no SVG; nothing if that is impossible."""
        try:
            return render_svg_as_png(svg, CARD_WIDTH)
        except MissingError as error:
            if str(error) not in self.problems:
                self.problems.append(str(error))
            return b""

    def locate_card(self, path: str, relative: str) -> str:
        """Return the address of a card: its own if the site's is known, which sites that show cards
        ask for, else the one relative to the page.
        """
        if self.address:
            return f"{self.address}/{path}"
        return relative


def parse_site_address(address: str) -> str:
    """Return the address of a site without a slash at its end; RequestError if it is none."""
    parts = urlsplit(address)
    if parts.scheme not in ("http", "https") or not parts.netloc or parts.query or parts.fragment:
        raise RequestError(f"--url {address}: not an address as in https://example.org/results")
    return address.rstrip("/")

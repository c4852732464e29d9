"""The page that buyer and seller sign: the contract, what was measured, and lines to sign on."""

from importlib.resources import files
from typing import Any, Final

from markupsafe import Markup

from submissions.accept.check import Acceptance
from submissions.accept.clauses import CLAUSE_TABLE, ClauseState
from submissions.accept.contract import format_moment
from submissions.accept.signers import PAGE_NAMESPACE
from submissions.report.page import build_page_policy, build_template_environment

PACKAGE: Final = "submissions.accept"
PAGE_TEMPLATE: Final = "acceptance.html.j2"
STYLE_FILE: Final = "acceptance.css"
STATE_CLASSES: Final = {
    ClauseState.MET: "met",
    ClauseState.NOT_MET: "missed",
    ClauseState.NOT_SHOWN: "open",
}
"""State -> class of its row in the style sheet."""


def render_acceptance_page(found: Acceptance, page_name: str) -> str:
    """Render the page; equal answers give equal bytes, so that both sides sign the same."""
    style = (files(PACKAGE) / "templates" / STYLE_FILE).read_text("utf-8")
    page = build_template_environment(PACKAGE).get_template(PAGE_TEMPLATE)
    terms = found.contract.terms
    return page.render(
        found=found,
        terms=terms,
        deadline=format_moment(terms.deadline),
        heads=CLAUSE_TABLE.list_told_rows(found.clauses)[0],
        rows=list(zip(found.clauses, CLAUSE_TABLE.list_told_rows(found.clauses)[1:], strict=True)),
        classes=STATE_CLASSES,
        sides=list_sides(found),
        namespace=PAGE_NAMESPACE,
        page_name=page_name,
        style=Markup(style),  # podium's own file
        policy=build_page_policy(style, ""),
    )


def list_sides(found: Acceptance) -> list[dict[str, Any]]:
    """Return who signs, with the key that each side's signature is checked with."""
    terms = found.contract.terms
    return [
        {"role": "Buyer", "name": terms.buyer.name, "key": terms.buyer.key},
        {"role": "Seller", "name": terms.seller.name, "key": terms.seller.key},
    ]

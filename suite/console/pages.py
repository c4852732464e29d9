"""The pages of the documentation, as `podium help TOPIC` prints them."""

import difflib
import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import click

from suite.console.command_table import OWN_COMMANDS
from suite.errors import RequestError
from suite.files.package_files import find_shipped_folder

SHELVES: Final = "docs"
PAGE_SUFFIX: Final = ".md"
MAX_PAGE_WIDTH: Final = 100
MAX_NEAR_NAMES: Final = 3
LEAST_LIKENESS: Final = 0.6
"""Of a name that is suggested for an unknown one, from 0 to 1."""
GENERATED_BLOCK: Final = re.compile(r"^::: .*\n(?:[ \t]+.*\n?)*", re.MULTILINE)
"""Where the site has text that is generated from the program, such as the help of all commands."""
IMAGE: Final = re.compile(r"!\[([^\]]*)\]\([^)]*\)")
"""An image: its description and its file."""
PAGE_LINK: Final = re.compile(r"(?<!!)\[([^\]]*)\]\((?![a-z]+:)([^)\s]*)\)")
"""A link to a place of the repository: its text and its target."""


def list_topics() -> Mapping[str, Path]:
    """Return the file of each page by its topic: the file's name without its suffix, in small
    letters; with the shelf before it (`guides/your-data`) if a command or another page has that
    name.
    """
    pages = sorted(locate_shelves().rglob(f"*{PAGE_SUFFIX}"))
    names = [page.stem.lower() for page in pages]
    return {
        spell_with_shelf(page) if name in OWN_COMMANDS or names.count(name) > 1 else name: page
        for name, page in zip(names, pages, strict=True)
    }


def locate_shelves() -> Path:
    """Return the folder of the documentation."""
    return find_shipped_folder(SHELVES, SHELVES)


def spell_with_shelf(page: Path) -> str:
    """Return a page's name behind that of its folder."""
    return f"{page.parent.name}/{page.stem}".lower()


def find_topic(name: str) -> str | None:
    """Return the topic of a page's name, which may have its shelf before it; None if no page, or
    more than one, has that name.
    """
    wanted = name.lower().removesuffix(PAGE_SUFFIX)
    found = [
        topic
        for topic, page in list_topics().items()
        if wanted in (topic, page.stem.lower(), spell_with_shelf(page))
    ]
    return found[0] if len(found) == 1 else None


def build_unknown_topic_error(topic: str, commands: list[str]) -> RequestError:
    """Return an error for a topic that is no command and no page, with the nearest names."""
    known = [*commands, *list_topics()]
    near = difflib.get_close_matches(
        topic.lower(), dict.fromkeys(known), n=MAX_NEAR_NAMES, cutoff=LEAST_LIKENESS
    )
    if near:
        hint = f"did you mean {' or '.join(map(repr, near))}?"
    else:
        hint = "podium help --all lists the commands and the topics"
    return RequestError(f"no command and no topic '{topic}'; {hint}")


def print_page(topic: str) -> None:
    """Print the page of a topic, and the topics that it links to: formatted on a terminal, as its
    Markdown text elsewhere. A picture is printed as its description.
    """
    page = list_topics()[topic]
    text = page.read_text("utf-8")
    shown = IMAGE.sub(r"*Picture: \1*", GENERATED_BLOCK.sub("", text))
    shown = PAGE_LINK.sub(r"\1", shown).strip()
    if linked := dict.fromkeys(iterate_linked_topics(text, page)):
        shown += f"\n\nSee also: {', '.join(f'`podium help {each}`' for each in linked)}"
    if not sys.stdout.isatty():
        click.echo(shown)
        return
    from rich.console import Console
    from rich.markdown import Markdown

    width = min(MAX_PAGE_WIDTH, shutil.get_terminal_size().columns)
    Console(width=width).print(Markdown(shown))


def iterate_linked_topics(text: str, page: Path) -> Iterator[str]:
    """Yield the topics of the pages that a page links to."""
    topics = {file.resolve(): topic for topic, file in list_topics().items()}
    for _, target in PAGE_LINK.findall(text):
        linked = (page.parent / target.partition("#")[0]).resolve()
        if linked in topics and linked != page.resolve():
            yield topics[linked]

"""Links of the repository's pages, as links of the site: each page keeps the links that work in a
clone.

A link that leaves the pages names a source file or a folder of them; such a link leads to a page
that shows its text.
"""

import posixpath
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

LINK: Final = re.compile(r"(\]\()([^)\s#]+)(#[^)\s]*)?(\))")
SOURCE: Final = "source"
"""Folder of the site with the pages of source files."""
UNSEARCHED: Final = "---\nsearch:\n  exclude: true\n---\n\n"
"""Front matter of a page that the search leaves out: readers look for what explains the code."""
LANGUAGES: Final = {".json": "json", ".md": "markdown", ".py": "python", ".toml": "toml"}
"""Suffix -> language for the highlighter; files of other kinds are not shown."""


def is_local(target: str) -> bool:
    """Say whether a link leads to a file of the repository, not to another site."""
    return "://" not in target and not target.startswith("mailto:")


def resolve(target: str, origin: str) -> str:
    """Give the path of a link's target from the repository's root; `origin` is the path of the file
    that holds the link.
    """
    return posixpath.normpath(posixpath.join(posixpath.dirname(origin), target))


def targets(markdown: str, origin: str) -> Iterator[str]:
    """Yield the repository paths that a page links to."""
    for match in LINK.finditer(markdown):
        if is_local(match[2]):
            yield resolve(match[2], origin)


def rewrite(markdown: str, origin: str, page: str, site: Mapping[str, str]) -> str:
    """Turn the links of a repository file into links of the site page `page`; `site` maps
    repository paths to pages.
    """

    def link(match: re.Match[str]) -> str:
        path = resolve(match[2], origin)
        if not is_local(match[2]) or path not in site:
            return match[0]
        target = posixpath.relpath(site[path], posixpath.dirname(page) or ".")
        return f"{match[1]}{target}{match[3] or ''}{match[4]}"

    return LINK.sub(link, markdown)


def source_page(path: str) -> str:
    """Name the page of a source file or folder."""
    return f"{SOURCE}/{path}.md"


def source_text(root: Path, path: str) -> str:
    """Write the page of a source file, or of all files in a folder."""
    file = root / path
    files = (
        sorted(each for each in file.rglob("*") if each.suffix in LANGUAGES)
        if file.is_dir()
        else [file]
    )
    return f"{UNSEARCHED}# {path}\n\n" + "\n\n".join(map(listing(root), files)) + "\n"


def listing(root: Path) -> Callable[[Path], str]:
    """Make the function that shows one file as a block of code."""

    def block(file: Path) -> str:
        return (
            f'~~~~ {{ .{LANGUAGES.get(file.suffix, "text")} title="{file.relative_to(root)}"'
            f" }}\n{file.read_text('utf-8').rstrip()}\n~~~~"
        )

    return block

"""Hook of MkDocs: adds the pages that lie outside docs/ or are generated, and turns links between
them into links of the site.
"""

from pathlib import Path
from typing import Final

from differences import insert_differences
from links import SOURCE, rewrite, source_page, source_text, targets
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from rules import rule_pages
from settings import insert_settings

ROOT: Final = Path(__file__).resolve().parents[2]
OUTSIDE: Final = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
}
"""Repository path -> page."""
SETTINGS_PAGE: Final = "reference/settings.md"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that do not lie in docs/."""
    added = {page: path for path, page in outside().items()}
    for page, path in added.items():
        files.append(File.generated(config, page, abs_src_path=str(ROOT / path)))
    for page, text in rule_pages().items():
        files.append(File.generated(config, page, content=text))
    for path in linked_sources(files):
        files.append(File.generated(config, source_page(path), content=source_text(ROOT, path)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turn links of the repository into links of the site, and insert generated tables."""
    name, paths = page.file.src_uri, origins(files)
    if name.startswith(f"{SOURCE}/"):
        return markdown
    if name == SETTINGS_PAGE:
        markdown = insert_settings(markdown)
    site = {path: each for each, path in paths.items()}
    return insert_differences(rewrite(markdown, paths[name], name, site))


def outside() -> dict[str, str]:
    """Name the files outside docs/ that are part of the site: repository path -> its name there."""
    found = dict(OUTSIDE)
    for readme in sorted(ROOT.glob("workloads/*/README.md")):
        found[f"workloads/{readme.parent.name}/README.md"] = f"workloads/{readme.parent.name}.md"
        found |= {
            str(image.relative_to(ROOT)): f"workloads/{readme.parent.name}/{image.name}"
            for image in sorted(readme.parent.glob("*.png"))
        }
    for readme in sorted(ROOT.glob("compliance/kinds/*/README.md")):
        found[str(readme.relative_to(ROOT))] = f"kinds/{readme.parent.name}.md"
    for page in sorted(ROOT.glob("benchmarks/results/*.md")):
        found[str(page.relative_to(ROOT))] = f"measurements/{page.name}"
    return found


def origins(files: Files) -> dict[str, str]:
    """Say of which repository path each file of the site was made: page -> path."""
    found = {page: path for path, page in outside().items()}
    for file in files:
        if file.src_uri.startswith(f"{SOURCE}/"):
            found[file.src_uri] = file.src_uri.removeprefix(f"{SOURCE}/").removesuffix(".md")
        elif file.src_uri not in found:
            found[file.src_uri] = f"docs/{file.src_uri}"
    return found


def linked_sources(files: Files) -> list[str]:
    """Name the source files and folders that pages link to and that are no pages themselves."""
    paths = origins(files)
    found = {
        path
        for page, origin in paths.items()
        if page.endswith(".md") and (ROOT / origin).is_file()
        for path in links_of(origin)
    }
    return sorted(path for path in found - set(paths.values()) if (ROOT / path).exists())


def links_of(origin: str) -> set[str]:
    """Name what a page of the repository links to."""
    return set(targets((ROOT / origin).read_text("utf-8"), origin))

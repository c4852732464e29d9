"""Makes the gallery from real runs: `python docs/reports.py --bundle resnet50.tar.zst --bundle
gnmt.tar.zst --study results/studies/vgg19`.

Each bundle gets its page in docs/reports/ and an image of what its model does in docs/images/; for
the first bundle, also the top of the page, which the README shows. All studies together get one
page, and one image each. `--site SITE` makes an image of a site's front page. Needs Chromium and
playwright; images are reduced to 256 colours or fewer.
"""

import argparse
import io
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from PIL import Image

from submissions.report import build
from submissions.report.command import render_document_html
from submissions.report.document import Document, convert_document_to_data, parse_document_data

DOCS: Final = Path(__file__).resolve().parent
SIZE: Final = {"width": 1180, "height": 1010}
"""Size of the image that the README shows, in pixels."""
COLOURS: Final = (256, 128, 64)
"""Of an image: as many as its size allows."""
BROWSERS: Final = ("chromium-headless-shell", "chromium")
LIMIT: Final = 200_000
"""Maximum bytes of an image, since a README is also read on phones."""


def main(words: Sequence[str] | None = None) -> None:
    """Make pages and images; without `words`, as the command line asks."""
    from playwright.sync_api import sync_playwright

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--bundle",
        type=Path,
        action="append",
        default=[],
        help="bundle of a real run; repeatable",
    )
    parser.add_argument(
        "--study",
        type=Path,
        action="append",
        default=[],
        help="folder of a study; repeatable",
    )
    parser.add_argument("--site", type=Path, help="folder that podium publish made")
    parser.add_argument("--out", type=Path, default=DOCS, help="folder of the pages and images")
    options = parser.parse_args(words)
    program = next(filter(None, map(shutil.which, BROWSERS)), None) or sys.exit(
        "no chromium: apt-get install chromium-headless-shell, or chromium"
    )
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        for number, bundle in enumerate(options.bundle):
            make(browser.new_page(viewport=SIZE), bundle, options.out, first=number == 0)
        if options.study:
            make_studies(browser.new_page(viewport=SIZE), options.study, options.out)
        if options.site:
            page = browser.new_page(viewport=SIZE)
            page.goto((options.site / "index.html").absolute().as_uri())
            save(page.screenshot(), options.out / "images" / "site.png")
        browser.close()


def make(page: Any, bundle: Path, out: Path, *, first: bool) -> None:
    """Make page and images of one bundle."""
    document = reported([bundle])
    workload = document.parts[0].headlines[0]["workload"]
    show(page, document, out / "reports" / f"{workload}.html")
    if first:
        save(page.screenshot(), out / "images" / "report.png")
    save(
        page.locator(f"section[id^=examples-{workload}]").screenshot(),
        out / "images" / f"report-{workload}.png",
    )


def make_studies(page: Any, studies: Sequence[Path], out: Path) -> None:
    """Make one page of all studies, and an image of each."""
    show(page, reported(studies), out / "reports" / "studies.html")
    for study in studies:
        save(
            page.locator(f"section[id$=study-{study.name}]").screenshot(),
            out / "images" / f"study-{study.name}.png",
        )


def reported(paths: Sequence[Path]) -> Document:
    """Make the report of these results."""
    document, problems, _ = build.judge_and_build_report(paths)
    if problems:
        sys.exit("; ".join(problems))
    return document


def show(page: Any, document: Document, target: Path) -> None:
    """Write a report as a page and open it."""
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(
        render_document_html(parse_document_data(convert_document_to_data(document))), "utf-8"
    )
    page.goto(target.absolute().as_uri())


def save(content: bytes, path: Path) -> None:
    """Reduce an image's colours until it is small enough and write it."""
    picture = Image.open(io.BytesIO(content)).convert("RGB")
    path.parent.mkdir(parents=True, exist_ok=True)
    for colours in COLOURS:
        picture.quantize(colours, dither=Image.Dither.NONE).save(path, optimize=True)
        if path.stat().st_size <= LIMIT:
            return
    sys.exit(f"{path}: larger than {LIMIT} bytes")


if __name__ == "__main__":
    main()

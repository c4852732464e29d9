"""A bundle of another format is refused by each command that takes one, in one sentence."""

import re
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner
from judged_examples import EXAMPLES

from submissions.pack.manifest import build_bundle_manifest
from submissions.pack.seal import write_bundle
from submissions.result_index import find_results
from suite.cli import group
from suite.errors import RequestError

COMMANDS = {
    "check": lambda bundle, out: ["check", bundle],
    "verify": lambda bundle, out: ["verify", bundle],
    "score": lambda bundle, out: ["score", bundle],
    "compare": lambda bundle, out: ["compare", bundle, bundle],
    "report": lambda bundle, out: ["report", bundle, "-o", f"{out}/page.html"],
    "publish": lambda bundle, out: ["publish", bundle, "-o", f"{out}/site"],
}


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle that says format 2."""
    made = tmp_path_factory.mktemp("bundle") / "old.tar.zst"
    manifest, sources = build_bundle_manifest(find_results(EXAMPLES / "base" / "ledger"))
    write_bundle(made, msgspec.structs.replace(manifest, format=2), sources)
    return made


@pytest.mark.parametrize("name", COMMANDS)
def test_a_bundle_of_another_format_is_refused(name: str, bundle: Path, tmp_path: Path) -> None:
    """Its records state other things at other places: findings about them would mislead."""
    words: Callable[[str, str], list[str]] = COMMANDS[name]
    ended = CliRunner().invoke(group, words(str(bundle), str(tmp_path)))
    assert isinstance(ended.exception, RequestError), ended.output
    assert ended.exception.exit_code == 2
    told = "old.tar.zst: a bundle of format 2, written by podium .*; this version reads format 3"
    assert re.match(told, str(ended.exception)) and "\n" not in str(ended.exception)
    assert not list(tmp_path.rglob("*.html"))

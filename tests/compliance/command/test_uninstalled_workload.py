"""A result of a workload whose package is not installed is neither valid nor broken: it cannot be
judged on this machine.
"""

import hashlib
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner
from kinds.network import networked
from spoiling import bundle, encode_as_podium

from compliance.cli import check
from compliance.judge import Judge
from compliance.verdict import Verdict
from submissions.commands.score import score
from suite.errors import MissingError


def renamed(files: dict[str, bytes]) -> None:
    """Make every mark of ResNet-50 one of a workload that nobody has; hashes follow."""
    content = {
        name.replace("checkpoints/resnet50", "checkpoints/toy").replace(
            "truth/resnet50", "truth/toy"
        ): data
        for name, data in files.items()
    }
    for name, data in content.items():
        content[name] = re.sub(
            rb'("(?:podium_)?workload"(?:, "value")?: )"resnet50"', rb'\1"toy"', data
        )
        if name.endswith(".json"):
            content[name] = content[name].replace(b"checkpoints/resnet50", b"checkpoints/toy")
    manifest = json.loads(content.pop("manifest.json"))
    manifest |= {
        field: {"toy": manifest[field]["resnet50"]} for field in ("nonce", "checkpoints")
    } | {"workloads": ["toy"]}
    manifest["files"] = {
        name: {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data)}
        for name, data in content.items()
    }
    files.clear()
    files |= {"manifest.json": encode_as_podium(manifest), **content}


def one_more(files: dict[str, bytes]) -> None:
    """The same, and a file that the manifest does not have."""
    renamed(files)
    files["open/acme/more.txt"] = b"more\n"


@pytest.mark.parametrize(
    ("spoil", "code", "verdict"), [(renamed, 3, Verdict.UNKNOWN), (one_more, 1, Verdict.BROKEN)]
)
def test_a_bundle_of_a_plugin_that_is_not_here(
    tmp_path: Path, spoil: Callable[[dict[str, bytes]], None], code: int, verdict: Verdict
) -> None:
    """What is lacking is a package on this machine; a bundle whose bytes are not what was sealed is
    broken all the same.
    """
    bundle(spoil)(tmp_path)
    path = str(tmp_path / "acme.tar.zst")
    result = Judge().judge_path(path)
    assert result.verdict is verdict, result.findings
    run = CliRunner().invoke(check, [path], standalone_mode=False)
    assert run.return_value == code
    assert ("cannot be judged here" in run.output) is (code == 3)


def test_each_result_of_it_is_unknown_on_each_of_its_systems(tmp_path: Path) -> None:
    """Training on one system and serving on another: the second system's folder was called a
    misspelt one, and all results but the first were valid.
    """
    bundle(renamed, made=networked)(tmp_path)
    path = str(tmp_path / "acme.tar.zst")
    judged = Judge().judge_path(path)
    assert len({Path(each.path).parts[-3] for each in judged.results}) > 1
    assert {each.verdict for each in judged.results} == {Verdict.UNKNOWN}
    assert judged.verdict is Verdict.UNKNOWN, judged.findings
    scored = CliRunner().invoke(score, [path])
    assert isinstance(scored.exception, MissingError)
    assert "cannot be judged here: the package of workload 'toy' is not" in str(scored.exception)
    assert "not judged" in scored.output and " no\n" not in scored.output


def test_what_is_broken_beside_it_weighs_more(tmp_path: Path) -> None:
    """Exit code 3 tells to install something; where a result is broken as well, that would not
    help.
    """
    bundle(renamed)(tmp_path)
    broken = tmp_path / "result_0.txt"
    broken.write_text("no log\n")
    assert (
        CliRunner()
        .invoke(check, [str(tmp_path / "acme.tar.zst"), str(broken)], standalone_mode=False)
        .return_value
        == 1
    )

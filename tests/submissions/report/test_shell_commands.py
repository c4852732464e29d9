"""Commands in a report can be repeated elsewhere."""

import pytest

from submissions.report.sections.shell_commands import format_repeatable_command


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (["/home/me/.venv/bin/podium", "run", "ssd"], "podium run ssd"),
        (["/home/me/podium/__main__.py", "run", "ssd"], "podium run ssd"),
        (["podium", "infer", "gnmt", "--system", "my box"], "podium infer gnmt --system 'my box'"),
        (["/opt/tool", "train"], "/opt/tool train"),
        ([], "''"),
    ],
)
def test_the_program_is_named_without_its_path(words: list[str], shown: str) -> None:
    assert format_repeatable_command(words) == shown

"""Output whose reader leaves early."""

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import click
from pathlib import Path
from suite.cli import main

@click.command()
@click.argument("ended")
def command(ended):
    for number in range(20_000):
        click.echo(f"step {number}")
    Path(ended).write_text("saved")

main(command)
"""


@pytest.mark.parametrize("together", [False, True])
def test_a_command_ends_as_if_its_output_were_still_read(tmp_path: Path, together: bool) -> None:
    """After the first line the reader leaves, as `head -1` does: no error, no traceback."""
    ended = tmp_path / "ended"
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(ended)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT if together else subprocess.PIPE,
        text=True,
    ) as program:
        assert program.stdout
        assert program.stdout.readline() == "step 0\n"
        program.stdout.close()
        assert program.wait(60) == 0
        assert not program.stderr or program.stderr.read() == ""
    assert ended.read_text() == "saved"

"""How OpenMP's threads wait: set before a framework is loaded, and a user's own choice stays."""

import json
import os
import subprocess
import sys

import pytest

from suite.process.openmp import LIMITED_SPIN_COUNT, SPIN_COUNT_VARIABLE, limit_openmp_spinning

WATCH = """
import json, os, sys
from suite import cli
class Command:
    def main(self, prog_name, standalone_mode):
        print(json.dumps([os.environ.get("GOMP_SPINCOUNT"), os.environ.get("OMP_WAIT_POLICY"), "torch" in sys.modules]))
cli.main(Command())
"""


def begun(**own: str) -> list[object]:
    """What a command finds when it begins: the two variables, and whether torch is loaded."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")
    } | own
    ended = subprocess.run(
        [sys.executable, "-c", WATCH], env=environment, capture_output=True, text=True, check=True
    )
    found: list[object] = json.loads(ended.stdout)
    return found


def test_it_is_set_before_a_framework_is_loaded():
    """libgomp reads its environment when it is loaded: set later, threads spin for milliseconds and
    take one another's cores.
    """
    assert begun() == [LIMITED_SPIN_COUNT, None, False]


@pytest.mark.parametrize("own", [{"GOMP_SPINCOUNT": "7"}, {"OMP_WAIT_POLICY": "active"}])
def test_a_users_own_value_stays(own: dict[str, str]):
    """Somebody who has tuned a machine would measure another one than they set up."""
    assert begun(**own) == [own.get("GOMP_SPINCOUNT"), own.get("OMP_WAIT_POLICY"), False]


def test_a_policy_of_the_users_is_not_overridden_by_a_count():
    """GOMP_SPINCOUNT goes before OMP_WAIT_POLICY in libgomp."""
    environment = {"OMP_WAIT_POLICY": "passive"}
    limit_openmp_spinning(environment)
    assert environment == {"OMP_WAIT_POLICY": "passive"} and SPIN_COUNT_VARIABLE not in environment

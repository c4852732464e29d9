"""Tests whether audits distinguish honest systems from cheats on a busy machine: fake devices that
sleep for each sample, in all four scenarios.

    python benchmarks/audits.py [--repeats 20] [--cheats-only] [--cheat index --cheat mode]
    [--scenario server] [--format json]

Honest devices must pass every time. Each cheat must fail the test that targets it, by speed or by
answers, not because LoadGen calls a run INVALID. It takes about 16 minutes on two busy cores, half
of them for the honest devices.
"""

import argparse
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "fakes"))
os.environ["PYTHONPATH"] = os.pathsep.join(
    filter(None, [sys.path[0], os.environ.get("PYTHONPATH")])
)

from common.tiny import add_tiny_option, choose_size  # noqa: E402
from podium_fakes.audited import CHEATS  # noqa: E402
from podium_fakes.busy import loops  # noqa: E402
from podium_fakes.drive import entry, options  # noqa: E402
from podium_fakes.kept import keep_ceiling, keep_checkpoint  # noqa: E402

from compliance.kinds.podium.documents.audit import read_audit  # noqa: E402
from harness.serving import infer  # noqa: E402
from harness.serving.audits.command import audit_workload  # noqa: E402
from suite import registry  # noqa: E402
from suite.audits.names import AuditTest  # noqa: E402
from suite.errors import JudgedError  # noqa: E402
from suite.files.layout import VERIFY_ACCURACY  # noqa: E402
from suite.loadgen.scenario import Scenario, parse_scenarios  # noqa: E402

LIMIT_S = choose_size(900.0, 0.1)
"""Seconds after which the busy loop of one step ends by itself; a step takes a minute or two."""
TRIES = 3
"""House rule: number of attempts to serve after an INVALID run, since a missed rate says nothing
about audits.
"""


def passes(results: Path, cheat: str, scenario: Scenario, test: str) -> bool:
    """Audit a served result; return whether it passed."""
    try:
        with loops([LIMIT_S]):
            audit_workload(
                "audited",
                asked(results, cheat),
                scenarios=(scenario,),
                test=test,
                rules="podium-v1",
                checkpoint=None,
            )
    except JudgedError as error:
        print(f"{cheat}: {error}")
        return False
    return True


def caught(results: Path, cheat: str, scenario: Scenario, test: str) -> bool:
    """Return whether an audit detects this cheat; a test that failed for another reason, or did not
    finish, does not count.
    """
    passed = passes(results, cheat, scenario, test)
    folder = entry(results).locate_audits("audited", scenario) / test
    if passed or not folder.exists():
        return False
    if test == AuditTest.TEST01:
        return "data_mismatch = 0" not in (folder / VERIFY_ACCURACY).read_text()
    outcome = read_audit(folder, scenario, None, registry.load_round()).outcome
    return outcome is not None and not outcome.compared.passed


def asked(results: Path, cheat: str) -> Any:
    """Build the run of a device that cheats in one way, or not at all."""
    return options(results, f"audited.cheat={cheat}", "server.target_qps=200")


def served(folder: Path, cheat: str, scenario: Scenario) -> Path:
    """Serve the device once; JudgedError if it is INVALID several times."""
    results = folder / f"{cheat}-{scenario.value}"
    for left in reversed(range(0 if results.exists() else TRIES)):
        keep_checkpoint(results, 1.0, workload="audited")
        try:
            with loops([LIMIT_S]):
                infer.serve_workload(
                    "audited",
                    asked(results, cheat),
                    scenarios=(scenario,),
                    mode="all",
                    checkpoint=None,
                )
            break
        except JudgedError:
            shutil.rmtree(results)
            if not left:
                raise
    return results


def measured(
    folder: Path, repeats: int, cheats: Sequence[str], scenarios: Sequence[Scenario]
) -> dict[str, Any]:
    """Audit honest devices, alternating scenarios, then each cheat in each scenario."""
    turns = [scenarios[number % len(scenarios)] for number in range(repeats)]
    honest = sum(passes(served(folder, "none", each), "none", each, "all") for each in turns)
    found = {
        cheat: [
            each.label
            for each in scenarios
            if caught(served(folder, cheat, each), cheat, each, CHEATS[cheat])
        ]
        for cheat in cheats
    }
    return {
        "honest": f"{honest} of {repeats}",
        "caught": found,
        "scenarios": [each.label for each in scenarios],
    }


def holds(document: dict[str, Any]) -> bool:
    """Return whether all honest ones passed, and each cheat was caught in each scenario."""
    passed, _, repeats = document["honest"].partition(" of ")
    return bool(
        passed == repeats
        and all(found == document["scenarios"] for found in document["caught"].values())
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--repeats", type=int, default=choose_size(20, 1), help="audits of honest devices"
    )
    parser.add_argument("--cheats-only", action="store_true", help="no honest devices")
    parser.add_argument(
        "--cheat", action="append", choices=list(CHEATS), help="only this one; repeatable"
    )
    parser.add_argument("--scenario", default=choose_size("all", "offline"))
    add_tiny_option(parser)
    parser.add_argument("--format", choices=["text", "json"], default="text")
    given = parser.parse_args()
    scenarios = parse_scenarios(given.scenario)
    with tempfile.TemporaryDirectory() as name, redirect_stdout(sys.stderr):
        folder = Path(name)
        os.environ["PODIUM_CACHE"] = str(folder / "cache")
        keep_ceiling(folder / "cache")
        document = measured(
            folder,
            0 if given.cheats_only else given.repeats,
            given.cheat or list(CHEATS)[: choose_size(len(CHEATS), 1)],
            scenarios,
        )
    print(json.dumps(document, indent=1) if given.format == "json" else document)
    sys.exit(0 if given.tiny or holds(document) else 1)


if __name__ == "__main__":
    main()

"""Whether audits tell honest systems from cheats beside a busy loop: fake devices that sleep for each sample, in all four scenarios.

    python benchmarks/audits.py [--repeats 20] [--cheats-only] [--scenario server] [--format json]

Honest ones have to pass every time, and each cheat has to fail the test that is about it, wherever it acts.
"""

import argparse
import json
import os
import sys
import tempfile
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "fakes"))
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [sys.path[0], os.environ.get("PYTHONPATH")]))

from podium_fakes.audited import CHEATS  # noqa: E402
from podium_fakes.busy import loops  # noqa: E402
from podium_fakes.drive import options  # noqa: E402
from podium_fakes.kept import keep_ceiling, keep_checkpoint  # noqa: E402

from harness.serving import infer  # noqa: E402
from harness.serving.audits.command import audit  # noqa: E402
from suite.errors import JudgedError  # noqa: E402
from suite.loadgen.scenario import Scenario, parse_scenarios  # noqa: E402

LIMIT_S = 3600.0
"""The busy loop ends by itself."""


def passes(results: Path, cheat: str, scenario: Scenario, test: str) -> bool:
    """Audit a served result; tell whether it passed."""
    try:
        audit("audited", asked(results, cheat), scenarios=(scenario,), test=test, rules="podium-v1", checkpoint=None)
    except JudgedError:
        return False
    return True


def asked(results: Path, cheat: str) -> Any:
    """Ask for a device that cheats in one way, or not at all."""
    return options(results, f"audited.cheat={cheat}", "server.target_qps=200")


def served(folder: Path, cheat: str, scenario: Scenario) -> Path:
    """Serve the device once."""
    results = folder / f"{cheat}-{scenario.value}"
    if not results.exists():
        keep_checkpoint(results, 1.0, workload="audited")
        infer.serve("audited", asked(results, cheat), scenarios=(scenario,), mode="all", checkpoint=None)
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--cheats-only", action="store_true")
    parser.add_argument("--scenario", default="all")
    parser.add_argument("--format", choices=["text", "json"], default="text")
    given = parser.parse_args()
    scenarios = parse_scenarios(given.scenario)
    with tempfile.TemporaryDirectory() as name, loops([LIMIT_S]), redirect_stdout(sys.stderr):
        folder = Path(name)
        os.environ["PODIUM_CACHE"] = str(folder / "cache")
        keep_ceiling(folder / "cache")
        honest = 0 if given.cheats_only else sum(passes(served(folder, "none", scenarios[n % len(scenarios)]), "none", scenarios[n % len(scenarios)], "all")
                                                 for n in range(given.repeats))  # fmt: skip
        caught = {cheat: [each.label for each in scenarios if not passes(served(folder, cheat, each), cheat, each, test)] for cheat, test in CHEATS.items()}
    document = {"honest": None if given.cheats_only else f"{honest} of {given.repeats}", "caught": caught, "scenarios": [each.label for each in scenarios]}
    print(json.dumps(document, indent=1) if given.format == "json" else document)
    sys.exit(0 if (given.cheats_only or honest == given.repeats) and all(len(found) == len(scenarios) for found in caught.values()) else 1)


if __name__ == "__main__":
    main()

"""Bounds of tokens' latencies and of energies: the figures of every run, from logs and readings as
they are written, and the reason where a bundle has none.
"""

import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from contracted_bundles import Parties, call, deliver, making, making_llama
from kinds.power import powered
from kinds.powered_training import trained

from compliance.kinds.podium.results.score import read_podium_values
from compliance.results.indexed_result import IndexedResult
from submissions.accept.clauses import ClauseFinding, ClauseState, judge_clauses
from suite.files.layout import DETAIL_LOG, TELEMETRY_FILE
from suite.loadgen.scenario import Scenario
from suite.records import EnergyRecord
from suite.result import Machine, Result

RUNS = (1.0, 1.01, 1.02)
"""How slow each run is, or how much it draws."""
Terms = dict[str, object]
LLAMA: Terms = {"workload": "llama", "scenario": "server", "runs": 3}
OFFLINE: Terms = {"workload": "resnet50", "scenario": "offline", "runs": 3}
TRAINING: Terms = {"workload": "resnet50", "scenario": "training", "runs": 3}


def judged(
    parties: Parties, folder: Path, clause: str, result: Result, terms: Terms
) -> ClauseFinding:
    contract = parties.write(folder / "c.toml", clause, **terms)
    (found,) = judge_clauses(contract, result)
    return found


def read_scenario(folder: Path, workload: str, scenario: Scenario) -> Result:
    """Read the runs of a scenario as scores do."""
    place = IndexedResult(
        folder=folder / scenario.folder,
        organisation_folder=None,
        system="",
        workload=workload,
        scenario=scenario,
    )
    return read_podium_values(place, "podium-v1")


def generate(folder: Path) -> Result:
    """Three runs of Llama's Server, each slower than the one before."""
    load = making.load_of(Scenario.SERVER, making_llama.build_llama_subject())
    for number, slow in enumerate(RUNS, 1):
        place = folder / Scenario.SERVER.folder / "performance" / f"run_{number}"
        making.write_run(place, replace(load, lowest_ns=int(slow * load.lowest_ns)), "performance")
    return read_scenario(folder, "llama", Scenario.SERVER)


def logged_percentile(folder: Path, run: int, key: str) -> float:
    """What LoadGen logged, in ms."""
    text = (folder / "Server" / "performance" / f"run_{run}" / DETAIL_LOG).read_text()
    return float(text.split(f'"{key}", "value": ')[1].split(",")[0]) / 1e6


KEYS = {
    "ttft_p99": "result_first_token_99.00_percentile_latency_ns",
    "tpot_p50": "result_time_per_output_token_50.00_percentile_ns",
}


@pytest.mark.parametrize("name", KEYS)
def test_a_latency_of_tokens_is_judged_by_all_runs(
    parties: Parties, tmp_path: Path, name: str
) -> None:
    """The figure is that of the run that gives the result, as scores show it."""
    result = generate(tmp_path)
    runs = [logged_percentile(tmp_path, run, KEYS[name]) for run in (1, 2, 3)]
    assert runs == sorted(set(runs))
    found = judged(parties, tmp_path, f"{name} <= {2 * runs[-1]} ms", result, LLAMA)
    assert list(found.runs) == pytest.approx(runs)
    assert found.figure.value == pytest.approx(runs[result.runs.index(result.value)])
    assert (found.state, found.evidence) == (ClauseState.MET, "3 runs, 95 % interval")
    for bound, state in (
        (f"{found.figure.value} ms", ClauseState.NOT_SHOWN),
        (f"{runs[0] / 2000} s", ClauseState.NOT_MET),
    ):
        assert judged(parties, tmp_path, f"{name} <= {bound}", result, LLAMA).state is state


def test_a_latency_that_one_run_lacks_is_not_shown(parties: Parties, tmp_path: Path) -> None:
    generate(tmp_path)
    log = tmp_path / "Server" / "performance" / "run_2" / DETAIL_LOG
    log.write_text(log.read_text().replace(KEYS["ttft_p99"], "result_other"))
    result = read_scenario(tmp_path, "llama", Scenario.SERVER)
    found = judged(parties, tmp_path, "ttft_p99 <= 1e6 ms", result, LLAMA)
    assert (found.state, found.evidence) == (ClauseState.NOT_SHOWN, "LoadGen logged no ttft_p99")
    assert judged(parties, tmp_path, "ttft_p90 <= 1e6 ms", result, LLAMA).state is ClauseState.MET


def test_a_bundle_shows_tokens_and_says_that_no_power_was_read(
    parties: Parties, tmp_path: Path
) -> None:
    """One run of an attempt, as its seller delivers it."""
    contract = parties.write(
        tmp_path / "c.toml",
        *("ttft_p99 <= 1e6 ms", "tpot_p99 <= 1e6 ms", "energy_per_token <= 9 J"),
        **{**LLAMA, "runs": 1},
    )
    bundle = deliver(
        contract,
        tmp_path,
        key=parties.key("seller"),
        scenario=Scenario.SERVER,
        subject=making_llama.build_llama_subject(),
    )
    outcome = call("accept", "check", tmp_path / "c.toml", bundle, "--format", "json")
    told = json.loads(outcome.stdout)
    assert (told["refusals"], told["code"]) == ([], 2)
    first, further, energy = told["clauses"]
    run = next((tmp_path / "tree").glob("open/*/results/*/*/Server"))
    assert first["value"] == logged_percentile(run.parent, 1, KEYS["ttft_p99"])
    assert first["evidence"] == further["evidence"] == "one run, no interval"
    assert (energy["value"], energy["evidence"]) == (None, "power was not read in every run")


def read_powered(folder: Path, change: Callable[[Path, int], object] = lambda *_: None) -> Result:
    """Three runs of Offline beside a meter and two counters, each of which draws more."""
    for number, more in enumerate(RUNS, 1):
        powered(watts=(231.5 * more, 118.0 * more, 9.5))(folder / str(number))
        made, place = folder / str(number) / "Offline", folder / "Offline" / "performance"
        place.mkdir(parents=True, exist_ok=True)
        shutil.copy(made / "system.json", folder / "Offline")
        place = Path(shutil.move(made / "performance" / "run_1", place / f"run_{number}"))
        change(place, number)
    result = read_scenario(folder, "resnet50", Scenario.OFFLINE)
    return replace(result, machine=Machine(nodes=1, accelerators=0))


def test_the_energy_of_a_sample_is_that_of_the_whole_machine(
    parties: Parties, tmp_path: Path
) -> None:
    result = read_powered(tmp_path)
    per_sample = [
        next(each.per_sample_j for each in run if each.name == "meter") for run in result.run_energy
    ]
    found = judged(parties, tmp_path, "energy_per_sample <= 1 kWh", result, OFFLINE)
    assert found.state is ClauseState.MET
    assert found.evidence == "3 runs, 95 % interval, read by meter (meter)"
    assert [run * 3.6e6 for run in found.runs if run] == pytest.approx(per_sample)
    for bound, state in (
        (per_sample[0], ClauseState.NOT_SHOWN),
        (per_sample[0] / 2, ClauseState.NOT_MET),
    ):
        clause = f"energy_per_sample <= {bound:.9f} J"
        assert judged(parties, tmp_path, clause, result, OFFLINE).state is state


def unread(place: Path, number: int) -> None:
    """The second run was not read."""
    if number == 2:
        (place / TELEMETRY_FILE).unlink()


def test_a_run_without_readings_shows_no_energy(parties: Parties, tmp_path: Path) -> None:
    found = judged(
        parties,
        tmp_path,
        "energy_per_sample <= 1 kWh",
        read_powered(tmp_path, unread),
        OFFLINE,
    )
    assert found.state is ClauseState.NOT_SHOWN
    assert found.evidence == "a run was not read by it, read by meter (meter)"


def on_gpus(result: Result, count: int) -> Result:
    """The same runs, whose meter's readings are those of each of so many GPUs."""

    def split(energies: Sequence[EnergyRecord]) -> tuple[EnergyRecord, ...]:
        (meter,) = (each for each in energies if each.name == "meter")
        return tuple(
            replace(
                meter, name=f"nvml:gpu{gpu}", source="nvml", grade="sensor", scope=(f"gpu{gpu}",)
            )
            for gpu in range(count)
        )

    return replace(
        result, energy=split(result.energy), run_energy=tuple(map(split, result.run_energy))
    )


def test_the_energy_of_gpus_is_that_of_all_of_them(parties: Parties, tmp_path: Path) -> None:
    alone = read_powered(tmp_path)
    whole = judged(parties, tmp_path, "energy_per_sample <= 1 kWh", alone, OFFLINE)
    result = replace(on_gpus(alone, 2), machine=Machine(nodes=1, accelerators=2))
    clause = "gpu_energy_per_sample <= 1 kWh"
    found = judged(parties, tmp_path, clause, result, OFFLINE)
    assert found.state is ClauseState.MET
    assert found.evidence.endswith("read by nvml:gpu0 (sensor) + nvml:gpu1 (sensor)")
    assert found.runs == pytest.approx([2 * run for run in whole.runs if run])
    for changed, why in (
        (replace(result, machine=Machine(accelerators=8)), "power was read of 2 of 8 accelerators"),
        (replace(result, machine=Machine(accelerators=0)), "the machine has no accelerators"),
        (replace(result, energy=(), run_energy=((),) * 3), "power was not read in every run"),
    ):
        found = judged(parties, tmp_path, clause, changed, OFFLINE)
        assert (found.state, found.evidence) == (ClauseState.NOT_SHOWN, why)


def test_a_part_is_not_the_whole_machine(parties: Parties, tmp_path: Path) -> None:
    """However little it draws."""
    result = on_gpus(read_powered(tmp_path), 1)
    found = judged(parties, tmp_path, "energy_per_sample <= 1 kWh", result, OFFLINE)
    assert found.state is ClauseState.NOT_SHOWN
    assert found.evidence == "power was read of gpu0, and not of the whole machine"


def test_an_energy_with_rough_edges_is_not_shown(parties: Parties, tmp_path: Path) -> None:
    result = read_powered(tmp_path)
    rough = tuple(
        tuple(replace(each, edge_j=each.joules) for each in run) for run in result.run_energy
    )
    found = judged(
        parties,
        tmp_path,
        "energy_per_sample <= 1 kWh",
        replace(result, run_energy=rough),
        OFFLINE,
    )
    assert found.state is ClauseState.NOT_SHOWN
    assert found.evidence.startswith("its error at the edges of a run may be more than 10 %")


def test_the_energy_of_a_training_is_the_mean_of_its_runs(parties: Parties, tmp_path: Path) -> None:
    """It is measured on one node."""
    for number in range(3):
        trained()(tmp_path / str(number))
        for name in ("result_{}.txt", "telemetry_{}.jsonl"):
            source = tmp_path / str(number) / name.format(0)
            target = tmp_path / "set" / name.format(number)
            target.parent.mkdir(exist_ok=True)
            text = source.read_text()
            if source.suffix == ".jsonl":
                text = text.replace('"p":231', f'"p":{231 + number}')
            target.write_text(text)
    place = IndexedResult(
        folder=tmp_path / "set",
        organisation_folder=None,
        system="",
        workload="resnet50",
        scenario=None,
        training_logs=tuple(sorted((tmp_path / "set").glob("result_*.txt"))),
    )
    result = read_podium_values(place, "podium-v1")
    clause = "energy_per_training <= 1 kWh"
    found = judged(parties, tmp_path, clause, result, TRAINING)
    assert found.state is ClauseState.MET
    assert found.figure.value == pytest.approx(sum(run or 0 for run in found.runs) / 3)
    missed = replace(result, figure=replace(result.figure, runs=(None, *result.runs[1:])))
    found = judged(parties, tmp_path, clause, missed, TRAINING)
    assert found.evidence.startswith("a run missed its target, no interval")
    cluster = replace(result, machine=Machine(nodes=4))
    found = judged(parties, tmp_path, clause, cluster, TRAINING)
    assert found.evidence == "power was read on one of 4 nodes"

"""The power channels of a telemetry file: windows in UTC, parts that contain one another never
added, and whatever a stranger writes is refused.
"""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite.files.untrusted_files import UnreadableError
from suite.measurement.power_readings import MeasuredWork, build_energy_records, read_power_readings

S = 1_000_000_000
UTC = 1_790_000_000 * S
"""The UTC of the machine's monotonic zero."""


def channel(
    name: str,
    grade: str,
    scope: str,
    *,
    kind: str = "power",
    within: tuple[str, ...] = (),
    **facts: Any,
) -> dict[str, Any]:
    own = {
        "name": name,
        "kind": kind,
        "source": name.partition(":")[0],
        "grade": grade,
        "scope": [scope],
        "within": list(within),
        "root": "/",
    }
    return {**own, "period_ms": 100, **facts}


def telemetry(
    folder: Path,
    *channels: dict[str, Any],
    watts: float = 50.0,
    drift_ns: int = 0,
    more: tuple[dict[str, Any], ...] = (),
) -> Path:
    """Twenty seconds of even power on every channel."""
    lines: list[dict[str, Any]] = [
        {
            "telemetry": 1,
            "channels": [{"id": n, **each} for n, each in enumerate(channels)],
            "clocks_ns": [0, UTC],
        }
    ]
    for tenth in range(201):
        for number, each in enumerate(channels):
            if each["kind"] != "state":
                value = (
                    {"e": round(watts * tenth * 1e5)}
                    if each["kind"] == "energy"
                    else {"p": round(watts * 1e6)}
                )
                lines.append({"t": tenth * S // 10, "i": number, **value})
    lines += [*more, {"end": {"clocks_ns": [20 * S, UTC + 20 * S + drift_ns]}}]
    path = folder / "telemetry.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


WINDOW = (UTC + 2 * S, UTC + 18 * S)
WORK = MeasuredWork(samples=1600)


def test_a_window_in_utc_is_found_in_a_file_of_monotonic_times(tmp_path: Path) -> None:
    (found,), reasons = build_energy_records(
        read_power_readings(telemetry(tmp_path, channel("meter", "meter", "system"))),
        *WINDOW,
        MeasuredWork(samples=1600, queries=200, tokens=16_000),
    )
    assert found.per_token_j == pytest.approx(0.05)
    assert (
        found.joules,
        found.average_w,
        found.per_sample_j,
        found.samples_per_s_per_w,
        found.mj_per_query,
    ) == pytest.approx((800, 50, 0.5, 2, 4000))
    assert (found.grade, found.scope, reasons) == ("meter", ("system",), ())


def test_parts_that_contain_one_another_are_never_added(tmp_path: Path) -> None:
    """Package, its cores, psys above both: psys alone stands for them, and one part is no sum."""
    cores = channel("rapl:core0", "counter", "core0", kind="energy", within=("package0", "psys"))
    package = channel("rapl:package0", "counter", "package0", kind="energy", within=("psys",))
    psys = channel("rapl:psys", "counter", "psys", kind="energy")
    alone, _ = build_energy_records(
        read_power_readings(telemetry(tmp_path, cores, package, psys)), *WINDOW, WORK
    )
    assert [each.name for each in alone] == ["rapl:core0", "rapl:package0", "rapl:psys"]
    dram = channel("rapl:dram0", "counter", "dram0", kind="energy", within=("psys",))
    summed, _ = build_energy_records(
        read_power_readings(telemetry(tmp_path, cores, package, dram)), *WINDOW, WORK
    )
    assert (summed[-1].name, summed[-1].scope, summed[-1].joules) == (
        "components",
        ("dram0", "package0"),
        pytest.approx(1600),
    )


def test_a_sum_has_the_weakest_grade_of_its_parts_and_is_no_system(tmp_path: Path) -> None:
    gpu = channel("ina3221:VDD_GPU_SOC", "sensor", "rail:VDD_GPU_SOC")
    package = channel("rapl:package0", "counter", "package0", kind="energy", within=("psys",))
    summed, _ = build_energy_records(
        read_power_readings(telemetry(tmp_path, gpu, package)), *WINDOW, WORK
    )
    assert (summed[-1].source, summed[-1].grade, summed[-1].scope) == (
        "components",
        "counter",
        ("package0", "rail:VDD_GPU_SOC"),
    )


def test_nvml_of_a_short_window_is_not_graded(tmp_path: Path) -> None:
    """Some GPUs' sensors see a quarter of the time."""
    found, reasons = build_energy_records(
        read_power_readings(telemetry(tmp_path, channel("nvml:gpu0", "sensor", "gpu0"))),
        UTC + 2 * S,
        UTC + 8 * S,
        WORK,
    )
    assert not found and "less than 10 s are not graded" in reasons[0]


def test_a_clock_that_was_set_during_the_run_costs_the_energy(tmp_path: Path) -> None:
    found, (reason,) = build_energy_records(
        read_power_readings(telemetry(tmp_path, channel("meter", "meter", "system"), drift_ns=S)),
        *WINDOW,
        WORK,
    )
    assert not found and "clock was set by 1000 ms" in reason


def test_a_meter_whose_clock_is_an_hour_off_gives_no_energy(tmp_path: Path) -> None:
    skewed = channel("meter", "meter", "system", clock_offset_ns=3600 * S, clock_doubt_ns=1000)
    found, (reason,) = build_energy_records(
        read_power_readings(telemetry(tmp_path, skewed)), *WINDOW, WORK
    )
    assert not found and "+3,600,000 ms off" in reason


def test_what_was_asked_for_and_is_not_there_is_told(tmp_path: Path) -> None:
    absent = {
        "name": "power:meter",
        "kind": "state",
        "power": True,
        "absent": "the meter x: cannot be reached",
    }
    meter, state = (
        channel("meter", "meter", "system"),
        {
            "name": "power:meter",
            "kind": "state",
            "power": True,
        },
    )
    assert build_energy_records(
        read_power_readings(telemetry(tmp_path, absent)), *WINDOW, WORK
    ) == (
        (),
        ("the meter x: cannot be reached",),
    )
    broken = ({"t": 20 * S, "power:meter": {"error": "it closed the connection"}},)
    _, reasons = build_energy_records(
        read_power_readings(telemetry(tmp_path, meter, state, more=broken)), *WINDOW, WORK
    )
    assert reasons == ("it closed the connection",)


def test_made_up_files_are_called_a_rehearsal(tmp_path: Path) -> None:
    assert (
        read_power_readings(
            telemetry(
                tmp_path,
                channel("rapl:package0", "counter", "package0", kind="energy")
                | {"root": "/tmp/tree"},
            )
        ).rehearsal
        == "/tmp/tree"
    )
    assert (
        read_power_readings(telemetry(tmp_path, channel("meter", "meter", "system"))).rehearsal
        == ""
    )


def test_a_run_that_was_interrupted_has_no_energy_over_the_hole(tmp_path: Path) -> None:
    """Two segments: what was drawn in between nobody read."""
    first, second = (
        telemetry(tmp_path, channel("meter", "meter", "system")).read_text(),
        tmp_path / "telemetry.jsonl",
    )
    second.write_text(
        first
        + first.replace(f"[0, {UTC}]", f"[0, {UTC + 60 * S}]").replace(
            f"{UTC + 20 * S}", f"{UTC + 80 * S}"
        )
    )
    found, (reason,) = build_energy_records(
        read_power_readings(second), UTC + 2 * S, UTC + 78 * S, WORK
    )
    assert not found and "no reading for 40000 ms" in reason


@pytest.mark.parametrize(
    "text",
    [
        "[]\n",
        "{}\n{\n",
        '{"channels": [{"grade": 1}]}\n',
        '{"i": []}\n',
        '{"channels": 1}\n',
        "[" * 99_999 + "\n",
        "\xff\n",
    ],
)
def test_what_no_sampler_wrote_is_refused_without_a_traceback(tmp_path: Path, text: str) -> None:
    (tmp_path / "x").write_text(text)
    try:
        read_power_readings(tmp_path / "x")
    except UnreadableError as error:
        assert str(tmp_path / "x") in str(error)


@pytest.mark.parametrize(
    "fact", ["clock_offset_ns", "clock_doubt_ns", "limit_w", "range_uj", "uncertainty"]
)
@pytest.mark.parametrize("value", [10**400, -(10**400), 2**63, float("inf"), float("nan")])
def test_a_number_that_no_instrument_reports_makes_the_file_unreadable(
    tmp_path: Path, fact: str, value: float
) -> None:
    """A meter may answer `clock` with 400 digits; a run that is finished must not end in a
    traceback.
    """
    path = telemetry(tmp_path, channel("meter", "meter", "system", **{fact: value}))
    with pytest.raises(
        UnreadableError, match="line 1: .*(whole number of 64 bits|no finite number)"
    ):
        read_power_readings(path)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=3),
    )
)
def test_any_value_in_a_reading_is_taken_or_refused(
    tmp_path_factory: pytest.TempPathFactory, value: Any
) -> None:
    path = tmp_path_factory.mktemp("any") / "telemetry.jsonl"
    line = {
        "telemetry": 1,
        "channels": [{**channel("meter", "meter", "system"), "period_ms": value}],
        "clocks_ns": [0, value],
    }
    path.write_text(json.dumps(line) + "\n" + json.dumps({"t": value, "i": 0, "p": value}) + "\n")
    with suppress(UnreadableError):
        build_energy_records(read_power_readings(path), *WINDOW, WORK)

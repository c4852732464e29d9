"""How long a silent server is waited for, and tensors that are cut."""

import pytest
from podium_fakes.served import schedule

from extras.kserve.messages import decode_bytes_elements
from extras.kserve.qdl import choose_silence_limit_s
from suite.loadgen.scenario import Scenario
from suite.workload import Mode


@pytest.mark.parametrize(
    ("scenario", "mode", "wanted", "seconds"),
    [
        (Scenario.SERVER, Mode.PERFORMANCE, None, 10.0),
        (Scenario.OFFLINE, Mode.PERFORMANCE, None, 60.0),
        (Scenario.SERVER, Mode.ACCURACY, None, 60.0),
        (Scenario.OFFLINE, Mode.PERFORMANCE, 1500, 1.5),
    ],
)
def test_a_silent_server_is_waited_for_as_documented(
    scenario: Scenario, mode: Mode, wanted: int | None, seconds: float
) -> None:
    """docs/reference/remote-systems.md: ten latency bounds, at least 10 s; 60 s in Offline."""
    assert choose_silence_limit_s(schedule(scenario, mode), wanted) == seconds


@pytest.mark.parametrize("raw", [b"\x01", b"\x05\0\0\0abc", b"\xff\xff\xff\xffx"])
def test_a_tensor_that_is_cut_is_no_answer(raw: bytes) -> None:
    """A length that lies would give bytes that nobody sent."""
    with pytest.raises(ValueError, match="ends inside"):
        decode_bytes_elements(raw, 9)

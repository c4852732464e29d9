"""Which division a networked result is one of, and how its servers are named."""

from dataclasses import replace

import pytest
from click.testing import CliRunner

from harness.commands.infer import infer
from harness.serving.network.setup import choose_network_division
from harness.serving.network.wire import compute_machine_id, parse_endpoint
from suite import registry
from suite.errors import RequestError
from suite.records import NetworkRecord
from suite.rounds import Division, Profile

APART = NetworkRecord(
    endpoints=("grpcs://h1:8001",),
    servers=("builtin",),
    nodes=("h1",),
    machines=("a" * 32,),
    loadgen_machine="b" * 32,
    loopback=False,
    form="opaque",
    model="resnet50",
    round_trip_p50_ns=(1,),
    round_trip_p99_ns=(2,),
    bytes_out=0,
    bytes_in=0,
)


@pytest.mark.parametrize(
    ("profile", "changes", "division"),
    [
        (Profile.FULL, {}, Division.NETWORK),
        (Profile.SMOKE, {}, Division.OPEN),
        (Profile.FULL, {"loopback": True}, Division.OPEN),
        (Profile.FULL, {"machines": ("b" * 32,)}, Division.OPEN),
        (Profile.FULL, {"machines": ("",)}, Division.OPEN),
        (Profile.FULL, {"loadgen_machine": ""}, Division.OPEN),
        (Profile.FULL, {"form": "tensors"}, Division.OPEN),
    ],
)
def test_network_is_claimed_only_between_machines(
    profile: Profile, changes: dict[str, object], division: Division
) -> None:
    """On one machine no data travel; and who does not say what is served may not claim anything."""
    row = registry.load_round().benchmark("resnet50").inference[profile]
    assert choose_network_division(row, replace(APART, **changes)) is division  # type: ignore[arg-type]


def test_this_machine_is_told_from_others_and_keeps_its_name() -> None:
    """Containers of one host share a boot id; /etc/machine-id they have of their own, or none."""
    assert compute_machine_id() == compute_machine_id() and len(compute_machine_id()) == 32


def test_addresses_of_ipv6_have_brackets() -> None:
    """Without them the port would be a part of the address."""
    endpoint = parse_endpoint("grpcs://[::1]:8001")
    assert (endpoint.host, endpoint.port, endpoint.target, endpoint.url) == (
        "::1",
        8001,
        "[::1]:8001",
        "grpcs://[::1]:8001",
    )
    with pytest.raises(RequestError):
        parse_endpoint("grpcs://::1:8001")


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (
            ("--endpoint", "grpc://h1:1", "--engine", "torch"),
            "--engine: the servers decide it",
        ),
        (("--endpoint", "grpc://h1:1", "--peak"), "--peak: cannot be combined with --endpoint"),
        (("--endpoint", "grpc://h1:1", "--scenario", "single-stream"), "only Server and Offline"),
        (("--ca", "ca.pem"), "--ca requires --endpoint"),
    ],
)
def test_options_that_belong_to_the_other_side_are_refused(
    words: tuple[str, ...], why: str
) -> None:
    """A number format that is asked for here would be taken for the server's."""
    ended = CliRunner().invoke(infer, ["resnet50", *words])
    assert isinstance(ended.exception, RequestError) and why in str(ended.exception)

"""What serves behind an address is what the server or the user states, and never what podium would
have used itself.
"""

import json
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from podium_fakes.kept import run_record
from podium_fakes.measuring import find_run, measure
from podium_fakes.scripted import (
    answering,
    fingerprinted,
    reply,
    scripted,
    stream,
    vllm_pages,
)

from harness.serving.network.statements.server_words import identify_server
from harness.serving.network.statements.user_words import join_words, read_user_identity
from submissions.commands.score import score
from submissions.compare.fitness import find_engine_differences
from submissions.compliance_check import judge_path
from submissions.report.sections.serving import build_system_settings_table
from submissions.score.score import score_paths
from suite.errors import JudgedError, RequestError
from suite.records import read_served_run, read_system_record
from suite.result import MadeWith, Result
from suite.served_identity import NOT_STATED, ServedIdentity, Speaker, Statement, state_all

VLLM_WORDS = {
    "owned_by": "vllm",
    "id": "llama",
    "root": "/models/llama",
    "/version": "0.32.0",
    "Server": "uvicorn",
}


def describe(identity: ServedIdentity) -> dict[str, str]:
    return {name: said.describe_statement() for name, said in identity.list_statements().items()}


@pytest.mark.parametrize(
    ("words", "engine", "version"),
    [
        ({"system_fingerprint": "vllm-0.32.0-8820c290"}, "vLLM", "0.32.0"),
        ({"system_fingerprint": "vllm-0.32.0+cpu-tp2-8820c290"}, "vLLM", "0.32.0+cpu"),
        (VLLM_WORDS, "vLLM", "0.32.0"),
        ({"owned_by": "llamacpp", "system_fingerprint": "b6119-cd6983d56"}, "llama.cpp", "b6119"),
        ({"Server": "llama.cpp"}, "llama.cpp", ""),
        ({"owned_by": "sglang", "Server": "uvicorn"}, "SGLang", ""),
        ({"Server": "vLLM/0.9.1"}, "vLLM", "0.9.1"),
        ({"owned_by": "openai", "system_fingerprint": "fp_44709d6fcb"}, "", ""),
        ({"owned_by": "system", "Server": "uvicorn"}, "", ""),
        ({"system_fingerprint": "b6119-cd6983d56"}, "", ""),
        ({"Server": "uvicorn/0.30"}, "", ""),
        ({"/version": "3"}, "", "3"),
        ({}, "", ""),
    ],
)
def test_an_engine_is_read_from_its_own_words_alone(
    words: dict[str, str], engine: str, version: str
):
    found = identify_server(words)
    assert (found.engine.value, found.version.value) == (engine, version)
    assert found.engine.said_by == (Speaker.SERVER if engine else Speaker.NOBODY)
    assert not found.device.is_known


def test_the_format_and_the_weights_are_the_servers_words():
    found = identify_server({"owned_by": "llamacpp", "id": "llama", "meta.ftype": "Q4_K - Medium"})
    assert found.precision.describe_statement() == "Q4_K - Medium (the server's word)"
    assert found.weights.value == "llama"
    assert identify_server(VLLM_WORDS).weights.value == "/models/llama"
    assert identify_server(VLLM_WORDS).precision.text == NOT_STATED


def test_a_heading_says_who_said_what():
    served = identify_server(VLLM_WORDS)
    user = state_all(Speaker.USER, "--system-file", precision="bf16")
    assert ServedIdentity().describe_engine() == "engine and precision not stated"
    assert served.describe_engine() == "vLLM 0.32.0 (the server's word), precision not stated"
    told = join_words(served, user, "http://h1").describe_engine()
    assert told == "vLLM 0.32.0 (the server's word), bf16 (the user's word)"
    assert user.describe_engine() == "engine not stated, bf16 (the user's word)"
    here = state_all(Speaker.PODIUM, "system.json", engine="torch", precision="fp32")
    assert here.describe_engine() == "torch fp32"


def test_a_user_who_contradicts_the_server_is_told_so():
    served = identify_server(VLLM_WORDS)
    assert join_words(served, state_all(Speaker.USER, "f", engine="VLLM"), "u") == served
    other = state_all(Speaker.USER, "f", engine="SGLang")
    with pytest.raises(RequestError, match=r"'SGLang', and http://h1 states 'vLLM' \(owned_by\)"):
        join_words(served, other, "http://h1")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[served]\nengin = 'x'\n", "engine"),
        ("[served]\nengine = 3\n", "printable characters"),
        ("[served]\nengine = ''\n", "printable characters"),
        ('[served]\nengine = "a\\nb"\n', "printable characters"),
        ("served = 'vLLM'\n", "a table is wanted"),
        ("[served\n", "--system-file"),
    ],
)
def test_a_bad_statement_of_the_user_is_named(tmp_path: Path, text: str, why: str):
    file = tmp_path / "system.toml"
    file.write_text(text)
    with pytest.raises(RequestError, match=why):
        read_user_identity(file)


@pytest.mark.slow
def test_a_server_that_states_nothing_is_recorded_so(results: Path):
    with scripted(answering(stream(counted=5))) as server:
        measure(results, server.url)
    record = read_served_run(find_run(results))
    system = record.system
    assert {system.engine, system.framework, system.precision, system.device} == {NOT_STATED}
    assert (system.threads, system.engine_package) == (0, "")
    assert describe(record.stated_system.identity) == {
        "engine": NOT_STATED,
        "version": NOT_STATED,
        "precision": NOT_STATED,
        "device": NOT_STATED,
        "weights": "llama (the server's word)",
    }
    assert record.network is not None and record.network.fingerprints == {}
    assert record.network.statements == ({"id": "llama"},)


@pytest.mark.slow
def test_words_of_server_and_user_are_recorded_with_their_speakers(results: Path, tmp_path: Path):
    file = tmp_path / "system.toml"
    file.write_text("[served]\nprecision = 'fp8'\ndevice = '2 x H200'\n")
    events = fingerprinted(stream(counted=5), "vllm-0.32.0-8820c290")
    with scripted(answering(events), pages=vllm_pages()) as server:
        measure(results, server.url, system_file=file)
    record = read_served_run(find_run(results))
    assert describe(record.stated_system.identity) == {
        "engine": "vLLM (the server's word)",
        "version": "0.32.0 (the server's word)",
        "precision": "fp8 (the user's word)",
        "device": "2 x H200 (the user's word)",
        "weights": "/models/llama (the server's word)",
    }
    assert (record.system.engine, record.system.precision) == ("vLLM", "fp8")
    network = record.network
    assert network is not None
    answers = record.batches["count"]
    assert network.fingerprints == {"vllm-0.32.0-8820c290": answers}
    assert network.statements[0]["system_fingerprint"] == "vllm-0.32.0-8820c290"
    assert network.statements[0]["max_model_len"] == "128"


@pytest.mark.slow
def test_every_fingerprint_is_counted(results: Path):
    kinds = ["vllm-0.32.0-8820c290", "vllm-0.32.0-00000000", None, 7]
    answers = cycle([answering(fingerprinted(stream(counted=5), kind)) for kind in kinds])
    with scripted(lambda asked: next(answers)(asked), pages=vllm_pages()) as server:
        measure(results, server.url)
    network = run_record(find_run(results)).network
    assert network is not None and set(network.fingerprints) == {*kinds[:2]}


@pytest.mark.slow
def test_servers_that_state_different_systems_are_refused(results: Path):
    with (
        scripted(answering(stream(counted=5)), pages=vllm_pages()) as one,
        scripted(answering(stream(counted=5)), pages=vllm_pages("0.31.0")) as other,
        pytest.raises(RequestError, match=r"version is 0\.31\.0 at .*, 0\.32\.0 at"),
    ):
        measure(results, one.url, other.url)


@pytest.mark.slow
@pytest.mark.parametrize("page", [b"[", b"<html>", b'{"version": 3}', b'{"major": "1"}'])
def test_a_page_of_another_kind_states_no_version(results: Path, page: bytes):
    with scripted(answering(stream(counted=5)), pages={"/version": reply(200, page)}) as server:
        measure(results, server.url)
    assert not read_served_run(find_run(results)).system.identity.version.is_known


@pytest.mark.slow
def test_an_engine_that_an_older_record_invented_is_read_as_not_stated(results: Path):
    """podium 0.2.0 wrote torch, fp32 and cpu over every server."""
    with scripted(answering(stream(counted=5))) as server:
        measure(results, server.url)
    run = find_run(results)
    (place,) = results.rglob("system.json")
    before = read_system_record(place.parent).compute_digest()
    document: dict[str, Any] = json.loads(place.read_text())
    del document["served"]
    document |= {"engine": "torch", "framework": "torch", "precision": "fp32"}
    document |= {"device": "cpu", "threads": 1}
    place.write_text(json.dumps(document, indent=2, sort_keys=True) + "\n")
    after = read_system_record(place.parent).compute_digest()
    (run / "run.json").write_text((run / "run.json").read_text().replace(before, after))
    record = read_served_run(run)
    assert record.system.engine == "torch"
    assert record.stated_system.engine == NOT_STATED
    assert record.stated_system.identity == ServedIdentity()
    assert record.stated_system.identity.engine == Statement()


@pytest.mark.slow
def test_scores_say_who_said_what(results: Path):
    """Data for programs have the bare value, and none where nobody stated one."""
    events = fingerprinted(stream(counted=5), "vllm-0.32.0-8820c290")
    with (
        scripted(answering(events), pages=vllm_pages()) as server,
        pytest.raises(JudgedError, match="rougeL"),
    ):
        measure(results, server.url, mode="all")
    told = CliRunner().invoke(score, [str(results)]).output
    assert "serving: vLLM 0.32.0 (the server's word), precision not stated\n" in told
    (row,) = score_paths([results], [])
    assert (row.precision, row.precision_words) == (None, NOT_STATED)
    assert row.made_with.served is not None
    table = build_system_settings_table(read_served_run(find_performance_run(results)), "")
    shown = dict(table.rows)
    assert (shown["engine"], shown["version"]) == (
        "vLLM (the server's word)",
        "0.32.0 (the server's word)",
    )
    assert (shown["precision"], shown["threads"]) == (NOT_STATED, NOT_STATED)


def find_performance_run(results: Path) -> Path:
    (place,) = results.glob("**/performance/run_1/run.json")
    return place.parent


def build_side(**said: str) -> Result:
    served = state_all(Speaker.SERVER, "owned_by", **said)
    made_with = MadeWith(engine=said.get("engine"), precision=None, served=served)
    return Result(made_with=made_with)


def test_what_nobody_states_is_equal_to_nothing():
    """Two servers that state nothing may differ in everything."""
    known, unknown = build_side(engine="vLLM", version="0.32.0"), build_side()
    here = Result(made_with=MadeWith(engine="torch", precision="fp32"))
    nobody = f"precision: unknown whether they differ: {NOT_STATED} and {NOT_STATED}"
    assert list(find_engine_differences(unknown, unknown)) == [
        nobody,
        f"engine: unknown whether they differ: {NOT_STATED} and {NOT_STATED}",
    ]
    assert list(find_engine_differences(known, known)) == [nobody]
    assert list(find_engine_differences(known, here)) == [
        f"precision: unknown whether they differ: {NOT_STATED} and fp32",
        "engine: vLLM 0.32.0 (the server's word) and torch",
    ]
    assert list(find_engine_differences(here, here)) == []
    published = Result(made_with=MadeWith(precision=None))
    assert list(find_engine_differences(published, published)) == []


@pytest.mark.slow
def test_the_judge_takes_a_server_for_what_it_states(results: Path, tmp_path: Path):
    """Of a format that is none of podium's nobody expects a calibration, nor a package of the
    engine.
    """
    file = tmp_path / "system.toml"
    file.write_text("[served]\nprecision = 'int8'\ndevice = '2 x H200'\nengine = 'torch'\n")
    with scripted(answering(stream(counted=5))) as server, pytest.raises(JudgedError):
        measure(results, server.url, system_file=file, mode="all")
    found = {finding.rule for finding in judge_path(results)}
    assert found.isdisjoint(
        {"entry.engine", "entry.precision", "entry.calibrated", "entry.measurements"}
    )
    assert found.isdisjoint(
        {"facts.agree", "tree.devices", "schema", "network.served", "network.replicas"}
    )

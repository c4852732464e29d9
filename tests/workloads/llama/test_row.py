"""The round's row for Llama: its target stands where the generated news say it does."""

from pathlib import Path

import pytest

from suite import registry
from suite.files.layout import compute_folder_sha256
from suite.rounds import Profile
from workloads.common.text.references import write_references
from workloads.llama.news import DOCUMENT_TOKENS, compute_floor
from workloads.llama.serving_set import SERVING_DOCUMENTS, generate_serving_documents

ROW = registry.load_round().benchmark("llama")


def test_the_target_of_smoke_is_a_stated_distance_above_the_floor() -> None:
    """A change of the news that makes them easier or harder has to move the target."""
    target = ROW.training[Profile.SMOKE].target["loss"]
    assert target - compute_floor() == pytest.approx(0.03, abs=5e-4)


def test_the_pinned_truth_is_that_of_the_served_news(tmp_path: Path) -> None:
    """The generator decides it, on every machine."""
    write_references(tmp_path, [each.summary for each in generate_serving_documents()])
    served = ROW.inference[Profile.SMOKE]
    assert compute_folder_sha256(tmp_path) == served.truth_sha256
    assert served.accuracy_samples == SERVING_DOCUMENTS


def test_sequences_of_smoke_hold_whole_documents() -> None:
    settings = ROW.training[Profile.SMOKE].settings
    assert int(str(settings["max_sequence_length"])) % DOCUMENT_TOKENS == 0

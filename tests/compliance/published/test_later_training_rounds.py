"""Published run sets since v1.0: valid, of their round, and with MLCommons' own factors."""

import json
import shutil
from pathlib import Path

import pytest
from corpus import CORPUS

from compliance.judge import Judge
from compliance.kinds.training.documents.convergence import judge_set_convergence
from compliance.kinds.training.documents.log import read_published_set
from compliance.kinds.training.round import load_training_round
from compliance.recognition.path_kind import recognise_path
from compliance.verdict import Verdict

OTHER_FACTOR = frozenset({"training_v3.0/GIGABYTE/results/G593-SD0_hugectr/dlrm_dcnv2"})
"""Its factor, 1.037, was made with another point than the ones that the package has today."""


def sets() -> list[Path]:
    return sorted(path for path in CORPUS.glob("training_v[1-9]*/*/results/*/*") if path.is_dir())


@pytest.mark.slow
def test_every_published_set_is_valid_and_of_its_round() -> None:
    """An accepted set that is called broken is a false alarm."""
    judge = Judge()
    for folder in sets():
        result = judge.judge_path(str(folder))
        assert (result.round, result.verdict) == (
            folder.relative_to(CORPUS).parts[0].replace("_", "-"),
            Verdict.VALID,
        ), folder


@pytest.mark.slow
def test_a_set_is_of_its_round_also_where_no_folder_says_so(tmp_path: Path) -> None:
    """Days and benchmarks tell it."""
    for number, origin in enumerate(sorted({folder.parents[2] for folder in sets()})):
        home = tmp_path / f"{number}" / origin.name
        shutil.copytree(origin, home)
        for folder in (path for path in home.glob("results/*/*") if path.is_dir()):
            assert Judge().resolve_round_name(recognise_path(folder)) == origin.parent.name.replace(
                "_", "-"
            ), folder


@pytest.mark.slow
def test_factors_are_the_published_ones() -> None:
    """MLCommons files a factor beside each set that has one; the others have none. The copies of
    v6.0 have no such files.
    """
    for folder in sets():
        path = recognise_path(folder)
        round = load_training_round(Judge().resolve_round_name(path))
        found = judge_set_convergence(read_published_set(folder, round, path.position))
        if (
            found is None
            or str(folder.relative_to(CORPUS)) in OTHER_FACTOR
            or not "training_v3.0" <= folder.relative_to(CORPUS).parts[0] < "training_v6.0"
        ):
            continue
        filed = folder / "scaling.json"
        wanted = json.loads(filed.read_text())["scaling_factor"] if filed.exists() else 1.0
        assert found.factor == pytest.approx(wanted, abs=1e-6), folder


def test_a_bare_set_is_of_the_later_round_where_the_first_one_calls_it_broken(
    tmp_path: Path,
) -> None:
    """v4.0 asks for submission_status and v4.1 no longer does: logs of v4.0's time without it were
    filed in v4.1.
    """
    bare = tmp_path / "llama2_70b_lora"
    shutil.copytree(CORPUS / "training_v4.0/ASUSTeK/results/ESC_N8A-E12/llama2_70b_lora", bare)
    for path in bare.glob("result_*.txt"):
        path.chmod(0o644)
        path.write_text(
            "".join(
                line
                for line in path.read_text().splitlines(keepends=True)
                if '"submission_status"' not in line
            )
        )
    assert Judge("training-v4.0").judge_path(str(bare)).verdict is Verdict.BROKEN
    result = Judge().judge_path(str(bare))
    assert (result.round, result.verdict) == ("training-v4.1", Verdict.VALID)
    assert result.recognised_by.endswith("round training-v4.0 would reject it")
    assert "training-v4.0" in result.other_rounds


def test_a_tree_whose_newest_round_breaks_it_is_judged_by_organisation(tmp_path: Path) -> None:
    """v5.1 still has DLRM, and asks for seeds, which an organisation's results of v3.0 need not
    have.
    """
    for origin in (
        "training_v5.1/AMD/results/MI350X_EPYC_9575F_pytorch",
        "training_v3.0/GIGABYTE/results/G593-SD0_hugectr",
    ):
        home = CORPUS / origin
        shutil.copytree(home, tmp_path / home.parents[1].name / "results" / home.name)
        shutil.copytree(home.parents[1] / "systems", tmp_path / home.parents[1].name / "systems")
    result = Judge().judge_path(str(tmp_path))
    assert (result.round, result.verdict) == ("training-v3.0, training-v5.1", Verdict.VALID)

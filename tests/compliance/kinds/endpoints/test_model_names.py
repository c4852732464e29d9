"""What the name of a model in config.yaml says against the benchmark that it is submitted for."""

import pytest

from compliance.kinds.endpoints.model_names import is_other_model

PUBLISHED = [
    ("qwen3.6-27b", "centml/Qwen3.6-27B-NVFP4-W4A4-mlpinf"),
    (
        "qwen3-vl-235b-a22b",
        "nvidia/Qwen3-VL-235B-A22B-Instruct-NVFP4-MLPerf-Inference-Closed-V6.1-FP8-KV",
    ),
    ("deepseek-r1", "/lustre/models/DeepSeek-R1-NVFP4-v2-mlpinf"),
    ("qwen3.6-27b", "/models/Qwen3.6-27B-Q4_K_M"),
    ("qwen3.6-27b", "base"),
    ("qwen3-vl-235b-a22b", "/hf_cache/models/qwen3vl-nvfp4"),
    ("wan-2.2-t2v-a14b", "wan22"),
]
"""Names in entries of Inference v6.1."""
LIKELY = [
    ("deepseek-r1", "deepseek-ai/DeepSeek-R1-0528"),
    ("deepseek-r1", "DeepSeek-R1-671B-4bit"),
    ("llama3.1-8b", "meta-llama/Llama-3.1-8B-Instruct"),
    ("llama3_1-8b", "Meta-Llama-3_1-8B"),
    ("llama3.1-8b-edge", "meta-llama/Llama-3.1-8B-Instruct"),
    ("llama2-70b-99.9", "meta-llama/Llama-2-70b-chat-hf"),
    ("gpt-oss-120b", "openai/gpt-oss-120b"),
    ("wan-2.2-t2v-a14b", "Wan-AI/Wan2.2-T2V-A14B-Diffusers"),
    ("kimi-k3", "moonshotai/Kimi-K3"),
    ("deepseek-v4_1-flash", "deepseek-ai/DeepSeek-V4.1-Flash"),
    ("qwen3_6-35b-a3b", "nvidia/Qwen3.6-35B-A3B-NVFP4"),
]
SILENT = [
    ("llama3.1-8b", "/model"),
    ("llama3.1-8b", "llama3_8b"),
    ("llama3.1-8b", "llama-8b"),
    ("llama3.1-8b", ""),
    ("resnet50", "resnet"),
    ("3d-unet-99", "3d-unet"),
]
"""Names that state less than the benchmark's."""
OTHERS = [
    ("llama3.1-8b", "meta-llama/Llama-3.2-1B-Instruct"),
    ("llama3.1-8b", "/models/Llama-3.1-70B-Instruct"),
    ("llama3.1-8b", "llama2-8b"),
    ("llama3.1-8b", "TinyLlama-1.1B"),
    ("deepseek-r1", "deepseek-ai/DeepSeek-V2-Lite"),
    ("deepseek-r1", "deepseek-ai/DeepSeek-R1-Distill-Llama-70B"),
    ("qwen3.6-27b", "Qwen/Qwen3.6-35B-A3B"),
    ("qwen3-vl-235b-a22b", "Qwen/Qwen3-VL-30B-A3B"),
    ("gpt-oss-120b", "openai/gpt-oss-20b"),
    ("kimi-k3", "moonshotai/Kimi-K2"),
    ("wan-2.2-t2v-a14b", "Wan-AI/Wan2.1-T2V-14B"),
    ("wan-2.2-t2v-a14b", "wan21"),
    ("deepseek-v4.1-flash", "deepseek-ai/DeepSeek-V3.2"),
]


@pytest.mark.parametrize(("benchmark", "name"), [*PUBLISHED, *LIKELY, *SILENT])
def test_a_name_of_the_benchmarks_model_contradicts_nothing(benchmark: str, name: str) -> None:
    assert not is_other_model(benchmark, name)


@pytest.mark.parametrize(("benchmark", "name"), OTHERS)
def test_another_size_version_or_origin_is_another_model(benchmark: str, name: str) -> None:
    assert is_other_model(benchmark, name)


def test_a_name_of_a_million_digits_takes_no_time() -> None:
    assert is_other_model("llama3.1-8b", f"llama-{'1' * 1_000_000}b")

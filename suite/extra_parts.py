"""Parts of podium that lie in `extras/` and that an installation may lack: who asks for one by name
reads what to install.
"""

from collections.abc import Mapping
from typing import Final

from suite.process.installation import RUN_EXTRA

EXTRA_PARTS: Final[Mapping[tuple[str, str], str]] = {
    ("podium.engines", "tensorflow"): "tensorflow",
    ("podium.engines", "tensorrt"): "tensorrt",
    ("podium.frameworks", "resnet50.tensorflow"): "tensorflow",
    ("podium.frameworks", "transformer.tensorflow"): "tensorflow",
    ("podium.inputs", "dali"): "dali",
    ("podium.networks", "alexnet"): RUN_EXTRA,
    ("podium.networks", "googlenet"): RUN_EXTRA,
    ("podium.networks", "resnet50"): RUN_EXTRA,
    ("podium.networks", "resnet101"): RUN_EXTRA,
    ("podium.networks", "vgg19"): RUN_EXTRA,
    ("podium.options", "infer.plans"): "tensorrt",
    ("podium.power", "hwmon"): "run",
    ("podium.power", "ina3221"): "run",
    ("podium.power", "tegrastats"): "run",
    ("podium.servers", "grpc"): "remote",
    ("podium.sites", "grpc"): "remote",
}
"""Group and name of an entry point -> the extra that pip installs for it. pyproject.toml has the
same points; commands are in `suite.console.command_table.OWN_COMMANDS`.
"""

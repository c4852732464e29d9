"""Parts of podium that lie in `extras/` and that an installation may lack: who asks for one by name
reads what to install.
"""

from collections.abc import Mapping
from typing import Final

EXTRA_PARTS: Final[Mapping[tuple[str, str], str]] = {
    ("podium.inputs", "dali"): "dali",
}
"""Group and name of an entry point -> the extra that pip installs for it. pyproject.toml has the
same points; commands are in `suite.console.command_table.OWN_COMMANDS`.
"""

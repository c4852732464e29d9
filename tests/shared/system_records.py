"""Changes records of systems under test as a forger would, with the digests that name them."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any


def put_system(**fields: Any) -> Callable[[Path], None]:
    """Change fields of a system's record, and the digest by which its runs name it: who forges the
    one forges the other. A double underscore goes one level down.
    """

    def change(path: Path) -> None:
        before = hashlib.sha256(path.read_bytes()).hexdigest()
        document = json.loads(path.read_text())
        for name, value in fields.items():
            *above, last = name.split("__")
            table = document
            for each in above:
                table = table[each]
            table[last] = value
        path.write_text(json.dumps(document, indent=2, sort_keys=True) + "\n")
        after = hashlib.sha256(path.read_bytes()).hexdigest()
        for other in path.parent.rglob("*.json"):
            other.write_bytes(other.read_bytes().replace(before.encode(), after.encode()))

    return change

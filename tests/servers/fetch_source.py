"""Downloads the source package of a distribution: `python fetch_source.py NAME==VERSION FILE`.

pip would build it first, and compile a cmake of its own.
"""

import hashlib
import json
import sys
import urllib.request
from pathlib import Path

INDEX = "https://pypi.org/simple"


def main(requirement: str, file: Path) -> None:
    """Write the file; SystemExit if the index does not have it, or other bytes arrive."""
    name, _, version = requirement.partition("==")
    request = urllib.request.Request(
        f"{INDEX}/{name}/", headers={"Accept": "application/vnd.pypi.simple.v1+json"}
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        files = json.load(answer)["files"]
    wanted = f"{name.replace('-', '_')}-{version}.tar.gz"
    found = next((each for each in files if each["filename"] == wanted), None)
    if found is None:
        sys.exit(f"{INDEX} does not have {wanted}")
    with urllib.request.urlopen(found["url"], timeout=600) as answer:
        content = answer.read()
    if hashlib.sha256(content).hexdigest() != found["hashes"]["sha256"]:
        sys.exit(f"{wanted}: other bytes than the index says")
    file.write_bytes(content)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))

"""Changes to a folder that can be taken back, so that a tree is copied once and not once per
mutant.
"""

import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(slots=True)
class Undo:
    """Changes files, and remembers how they were."""

    aside: Path
    """An empty folder beside the tree; what is deleted waits here."""
    steps: list[Callable[[], object]] = field(default_factory=list)

    def write(self, path: Path, content: bytes | str) -> bool:
        """Write a file."""
        before = path.read_bytes() if path.is_file() else None
        missing = next(
            (
                folder
                for folder in reversed([path.parent, *path.parent.parents])
                if not folder.exists()
            ),
            None,
        )
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode("latin-1"))
        self.steps.append(lambda: path.write_bytes(before) if before is not None else path.unlink())
        if missing is not None:
            self.steps.insert(len(self.steps) - 1, lambda: shutil.rmtree(missing))
        return True

    def edit(self, path: Path, change: Callable[[str], str]) -> bool:
        """Change a file's text; False where that changes nothing, or there is no file."""
        if not path.is_file():
            return False
        before = path.read_bytes().decode("latin-1")
        after = change(before)
        return after != before and self.write(path, after)

    def delete(self, path: Path) -> bool:
        """Take a file or a folder away."""
        return path.exists() and self.rename(path, self.aside / f"{len(self.steps)}-{path.name}")

    def rename(self, path: Path, to: Path) -> bool:
        """Move a file or a folder."""
        to.parent.mkdir(parents=True, exist_ok=True)
        path.rename(to)
        self.steps.append(lambda: to.rename(path))
        return True

    def link(self, path: Path, to: str) -> bool:
        """Put a link in a file's place."""
        self.delete(path)
        path.symlink_to(to)
        self.steps.append(path.unlink)
        return True

    def copy(self, path: Path, to: Path) -> bool:
        """Copy a file."""
        return self.write(to, path.read_bytes())

    def back(self) -> None:
        """Take all changes back, the last one first."""
        while self.steps:
            self.steps.pop()()

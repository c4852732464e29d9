"""What every judge says of a path that holds nothing to judge."""

from compliance.place import folders, homes
from compliance.tree import Kind, Target


def nothing_in(target: Target) -> tuple[str, str]:
    """Say of a path that holds nothing to judge what was found, and what is asked for."""
    path = target.path
    if target.kind is Kind.EMPTY:
        return "an empty folder", "results in it; if a run should have written here, look at its output"
    if trees := [folder.name for folder in folders(path) if any(homes(folder))]:
        return f"a folder of {len(trees)} results trees", f"one PATH each: {', '.join(f'{path.name}/{name}' for name in trees[:8])}"
    return "nothing that the judge knows", "a log, set, entry, system, organisation, results tree or bundle"

"""Build the result for a path that contains nothing to judge."""

from compliance.recognition.path_kind import PathKind, RecognisedPath
from compliance.recognition.renamed_logs import summarise_names
from compliance.recognition.tree_path import list_published_logs


def describe_empty_target(target: RecognisedPath) -> tuple[str, str]:
    """Return the found and required texts for a path that contains nothing to judge."""
    if target.kind is PathKind.EMPTY:
        return "an empty folder", "results; if a run should have written here, check its output"
    if target.kind is PathKind.DOCUMENT:
        return (
            "an unrecognised JSON file",
            "a LoadGen file, or systems/<system>.json or measurements/... in a results tree",
        )
    if target.kind is PathKind.SET:
        names = [path.name for path in list_published_logs(target.path)]
        return f"training logs named {summarise_names(names)}", "result_<i>.txt"
    return (
        "nothing that the judge recognises",
        "a log, set, entry, system, organisation, results tree or bundle",
    )

"""Names of LoadGen's settings: summary and detail log spell them differently."""


def plain(name: str) -> str:
    """Reduce a setting's name to what both blocks and the summary call it: `min_duration (ms)` is min_duration_ms."""
    return name.strip().replace(" (ms)", "_ms").replace(" (ns)", "_ns").replace("*", "").strip()

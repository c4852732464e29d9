"""Names of LoadGen's settings, which summary and detail log spell differently."""


def normalise_setting_name(name: str) -> str:
    """Normalise a setting's name across both blocks and the summary: `min_duration (ms)` is
    min_duration_ms.
    """
    return name.strip().replace(" (ms)", "_ms").replace(" (ns)", "_ns").replace("*", "").strip()

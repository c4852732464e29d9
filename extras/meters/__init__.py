"""Power meters of a whole machine: the ACPI meter as a power source, external meters that speak the
text protocol of docs/reference/power-meters.md, and programs that speak it.
"""

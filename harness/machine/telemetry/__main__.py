"""`python -m harness.machine.telemetry`: the sampler's process, started by process.py."""

from harness.machine.telemetry.sampler import main

if __name__ == "__main__":
    main()

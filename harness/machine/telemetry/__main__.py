"""`python -m harness.machine.telemetry`: the sampler's process, started by process.py."""

from harness.machine.telemetry.sampler import serve_sampling_plans

if __name__ == "__main__":
    serve_sampling_plans()

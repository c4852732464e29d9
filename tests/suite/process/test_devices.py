"""One set of devices has one name, which reads back as that set; a name from outside is never
expanded beyond reason.
"""

import pytest

from suite.process.devices import (
    MAX_EXPANDED_NUMBERS,
    expand_device_name,
    format_device_name,
    format_number_list,
    is_gpu_list,
)


@pytest.mark.parametrize(
    ("devices", "name"),
    [
        (["cpu", "cpu"], "cpu"),
        (["cuda:3"], "cuda:3"),
        (["cuda:1", "cuda:0", "cuda:1"], "cuda:0-1"),
        (["cuda:0", "cuda:2"], "cuda:0,2"),
        ([f"cuda:{number}" for number in range(12)], "cuda:0-11"),
    ],
)
def test_a_name_reads_back_as_its_devices(devices: list[str], name: str):
    """Runner and judge have to mean the same GPUs."""
    assert format_device_name(devices) == name
    assert expand_device_name(name) == tuple(
        sorted(set(devices), key=lambda device: (len(device), device))
    )


@pytest.mark.parametrize(
    "name",
    [
        "cuda:0,0",
        "cuda:0,1",
        "cuda:2,0",
        "cuda:3-1",
        "cuda:0-0",
        "cuda:all",
        "cuda:0-",
        "cuda:00-1",
        f"cuda:0-{MAX_EXPANDED_NUMBERS}",
        "cuda:0-999999999999999999",
    ],
)
def test_a_list_that_podium_does_not_write_names_nothing(name: str):
    """A GPU twice, a range backwards, one name too many for a set, or more GPUs than any node
    has.
    """
    assert is_gpu_list(name) and expand_device_name(name) is None


@pytest.mark.parametrize("name", ["cpu", "cuda", "cuda:7", "tpu:0-3", ""])
def test_what_is_no_list_stays_one_device(name: str):
    """Older records, and devices of others' engines."""
    assert expand_device_name(name) == (name,)


@pytest.mark.parametrize(
    ("numbers", "text"), [((), ""), ((4,), "4"), ((0, 2, 3), "0,2-3"), (tuple(range(64)), "0-63")]
)
def test_numbers_are_written_as_the_kernel_does(numbers: tuple[int, ...], text: str):
    """64 numbers would not fit a line."""
    assert format_number_list(numbers) == text

"""Freed memory stays with the process."""

import platform
import subprocess
import sys

import pytest

SCRIPT = """
import sys
import torch
from puffertoolkit.allocator import keep_freed_memory
if sys.argv[1] == "keep":
    assert keep_freed_memory()
def resident_mb():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096 / 1e6
for _ in range(5):
    tensors = [torch.ones(5_000_000) for _ in range(4)]
    full = resident_mb()
    del tensors
print(full - resident_mb())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the C library here is not glibc")
def test_freed_memory_is_kept_for_the_next_time():
    returned_mb = {}
    for choice in ("keep", "leave"):
        command = [sys.executable, "-c", SCRIPT, choice]
        returned_mb[choice] = float(subprocess.run(command, capture_output=True, check=True).stdout)
    assert returned_mb["keep"] < 1
    assert returned_mb["leave"] > 20

"""Freed memory stays with the process, seen from outside of it: by its page faults."""

import platform
import subprocess
import sys

import pytest

SCRIPT = """
import resource, sys
import torch
from puffertoolkit.allocator import keep_freed_memory
if sys.argv[1] == "keep":
    assert keep_freed_memory()
def faults():
    for _ in range(20):
        a, b, c = (torch.ones(5_000_000) for _ in range(3))
        del a, b, c
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
before = faults()
print(faults() - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the C library here is not glibc")
def test_memory_is_used_again_without_page_faults():
    counts = {}
    for choice in ("keep", "leave"):
        out = subprocess.run(
            [sys.executable, "-c", SCRIPT, choice], capture_output=True, text=True, check=True
        )
        counts[choice] = int(out.stdout)
    assert counts["keep"] < 100
    assert counts["leave"] > 10 * max(1, counts["keep"])

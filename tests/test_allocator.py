"""Blocks that would come from the system one by one come from the heap, as glibc counts them."""

import ctypes
import platform
import subprocess
import sys

import pytest

SCRIPT = """
import ctypes, sys
from puffertoolkit.allocator import keep_freed_memory
class Info(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in
                ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks",
                 "fordblks", "keepcost")]
libc = ctypes.CDLL(None)
libc.mallinfo2.restype = Info
libc.malloc.restype = ctypes.c_void_p
if sys.argv[1] == "keep":
    assert keep_freed_memory()
before = libc.mallinfo2().hblks
blocks = [libc.malloc(20_000_000) for _ in range(3)]
print(libc.mallinfo2().hblks - before)
"""


@pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc" or not hasattr(ctypes.CDLL(None), "mallinfo2"),
    reason="counting the blocks takes glibc 2.33 or newer",
)
@pytest.mark.parametrize(("choice", "from_the_system"), [("keep", 0), ("leave", 3)])
def test_large_blocks_come_from_the_heap_that_is_kept(choice, from_the_system):
    command = [sys.executable, "-c", SCRIPT, choice]
    assert int(subprocess.run(command, capture_output=True, check=True).stdout) == from_the_system

"""How many threads work is decided once, whoever starts first."""

import subprocess
import sys

SCRIPT = """
import sys
from puffertoolkit.threads import set_threads, settle_threads
import torch
set_threads(1)
import numba
if sys.argv[1] == "settle":
    settle_threads(1)
numba.get_num_threads()
print(torch.get_num_threads())
"""


def test_torch_keeps_its_number_when_numba_starts():
    command = [sys.executable, "-c", SCRIPT, "settle"]
    assert int(subprocess.run(command, capture_output=True, check=True).stdout) == 1

"""Where a run came from: the code, the versions, the machine. No environment variable is ever recorded."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from puffertoolkit.threads import available_cpus

PACKAGES = ("puffertoolkit", "torch", "numba", "numpy", "gymnasium", "hydra-core")
DIFF_LIMIT_BYTES = 1_000_000
UNTRACKED_LIMIT = 50
GIT_TIMEOUT_S = 5.0
_DECISIVE = ("platform", "architecture", "processor", "num_threads", "device")


arguments: tuple[str, ...] = ()
"""What stood after `python -m puffertoolkit`; the command line says it here. Hydra is given more."""


@dataclass(frozen=True)
class GitState:
    """The source checkout a run used.

    Attributes:
        sha: The commit; None where there is no checkout, no git, or no commit yet.
        dirty: Whether files differ from that commit or are new; None where that is not known.
        diff: What differs from the commit, cut at `DIFF_LIMIT_BYTES`; empty when nothing does.
        untracked: The names of new files, which no diff shows.
    """

    sha: str | None = None
    dirty: bool | None = None
    diff: bytes = b""
    untracked: tuple[str, ...] = ()


def versions() -> dict[str, str | None]:
    """Of Python, of the packages that decide a run's numbers, and of CUDA (None: a build without it)."""
    found: dict[str, str | None] = {"python": platform.python_version()}
    found.update({name: _package_version(name) for name in PACKAGES})
    found["cuda"] = _cuda_version()
    return found


def machine() -> dict[str, str | int]:
    """The host, its platform, and the CPUs this process may use."""
    return {
        "host": socket.gethostname(),
        "platform": platform.platform(),
        "architecture": platform.machine(),
        "processor": _processor(),
        "cpu_count": available_cpus(),
    }


def differences(there: Mapping[str, Any], here: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """What is not the same in the records of two processes and may change a run's numbers.

    Args:
        there: What `run.json` says of one process.
        here: The same of the other.

    Returns:
        (name, there, here) of each.
    """
    pairs = [(name, there.get(name), here.get(name)) for name in _DECISIVE]
    for group, names in (("versions", None), ("git", ("sha", "dirty"))):
        old, new = (dict(record.get(group) or {}) for record in (there, here))
        title = f"{group} " if names else ""
        pairs += [(f"{title}{name}", old.get(name), new.get(name)) for name in names or {**old, **new}]
    return [(name, _shown(old), _shown(new)) for name, old, new in pairs if old != new]


def _shown(value: Any) -> str:
    return "unknown" if value is None else str(value)


def git_state(package_dir: Path) -> GitState:
    """The state of the git checkout that holds a package's source; an empty one where there is none.

    It never raises: a missing, slow or broken git must not stop a run.
    """
    # A package installed below somebody's own repository is not part of it: only tracked source counts.
    if _git(package_dir, "ls-files", "--error-unmatch", "--", "__init__.py") is None:
        return GitState()
    sha = _git(package_dir, "rev-parse", "--verify", "HEAD")
    status = _git(package_dir, "status", "--porcelain", "-z", "--no-renames")
    if sha is None or status is None:
        return GitState()
    names = [entry for entry in status.decode(errors="replace").split("\0") if entry]
    untracked = tuple(name[3:] for name in names if name.startswith("??"))
    diff = b""
    if len(names) > len(untracked):
        # `:/` is the whole checkout, of which the package is one folder.
        command = ("diff", "HEAD", "--no-color", "--no-ext-diff", "--no-textconv", "--", ":/")
        diff = _git(package_dir, *command) or b""
        if len(diff) > DIFF_LIMIT_BYTES:
            diff = diff[:DIFF_LIMIT_BYTES] + f"\n(cut here, at {DIFF_LIMIT_BYTES:,} bytes)\n".encode()
    return GitState(sha.decode().strip(), bool(names), diff, untracked[:UNTRACKED_LIMIT])


def _git(directory: Path, *arguments: str) -> bytes | None:
    """The output of a git command, at most a little over `DIFF_LIMIT_BYTES` of it; None if it failed."""
    # GIT_DIR and its like, as set in a hook, would point at another repository.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    command = ["git", "--no-optional-locks", "-C", str(directory), *arguments]
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
        )
    except OSError:
        return None
    timer = threading.Timer(GIT_TIMEOUT_S, process.kill)
    timer.start()
    with process:
        assert process.stdout is not None
        output = process.stdout.read(DIFF_LIMIT_BYTES + 1)
        cut = len(output) > DIFF_LIMIT_BYTES
        if cut:
            process.kill()
    timer.cancel()
    return output if cut or process.returncode == 0 else None


def _processor() -> str:
    """The processor's model, which decides on the instructions that Torch and Numba use."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return platform.processor() or platform.machine()
    found = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    return found.group(1).strip() if found else platform.machine()


def _package_version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _cuda_version() -> str | None:
    """The CUDA version Torch was built for, read from its source: importing Torch takes over a second."""
    torch = sys.modules.get("torch")
    if torch is not None:
        version = torch.version.cuda
        return version if isinstance(version, str) else None
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        return None
    try:
        text = (Path(spec.origin).parent / "version.py").read_text(encoding="utf-8")
    except OSError:
        return None
    found = re.search(r"^cuda\b[^=\n]*=\s*['\"]([^'\"]+)['\"]", text, re.MULTILINE)
    return found.group(1) if found else None

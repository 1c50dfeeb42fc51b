"""How the network is run: the precision of its products, and compiled or not."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

from puffertoolkit.errors import UserError

Sequence = Callable[..., Any]


def precision(name: str, device: torch.device) -> AbstractContextManager[Any]:
    """What to run the network in: "float32", or "bfloat16" for its matrix products alone."""
    if name == "float32":
        return nullcontext()
    return torch.autocast(device.type, dtype=torch.bfloat16)


def require_precision(name: str, device: torch.device) -> None:
    """Raise a UserError where `device` has no products in bfloat16, or slow ones that only imitate them."""
    if name == "float32" or device.type == "cpu":
        return
    if device.type == "cuda":
        there = torch.cuda.is_bf16_supported(including_emulation=False)
    else:
        there = device.type == "mps" and torch.backends.mps.is_macos_or_newer(14, 0)
    if not there:
        raise UserError(
            f"train.precision={name} is not to be had on {device}; leave train.precision=float32."
        )


def compiled(sequence: Sequence) -> Sequence:
    """`sequence` by `torch.compile`, which happens at its first call.

    Raises:
        UserError: on a CPU, if there is no C++ compiler.
    """
    if not torch.cuda.is_available() and not any(map(shutil.which, ("c++", "g++", "clang++"))):
        raise UserError(
            "train.compile=true needs a C++ compiler on a CPU, and there is none on the PATH (c++, g++ or "
            "clang++). Install one, or leave train.compile=false."
        )
    result: Sequence = torch.compile(sequence, dynamic=False)
    return result

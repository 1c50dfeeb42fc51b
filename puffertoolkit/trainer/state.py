"""Random generators and arrays as a checkpoint holds them: tensors, and nothing that could run code."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor


def random_state(device: torch.device) -> dict[str, Tensor]:
    """Torch's global generators: of the CPU, and of `device` if that is another."""
    state = {"torch": torch.get_rng_state()}
    if device.type == "cuda":
        state["device"] = torch.cuda.get_rng_state(device)
    elif device.type == "mps":
        state["device"] = torch.mps.get_rng_state()
    return state


def set_random_state(state: dict[str, Tensor], device: torch.device) -> None:
    """Take up what `random_state` gave; on another kind of device, what there is of it."""
    torch.set_rng_state(state["torch"])
    if device.type == "cuda" and "device" in state:
        torch.cuda.set_rng_state(state["device"], device)
    elif device.type == "mps" and "device" in state:
        torch.mps.set_rng_state(state["device"])


def as_tensors(value: Any) -> Any:
    """`value` with every NumPy array in its dictionaries as a tensor."""
    if isinstance(value, dict):
        return {key: as_tensors(item) for key, item in value.items()}
    return torch.from_numpy(value) if isinstance(value, np.ndarray) else value


def as_arrays(value: Any) -> Any:
    """The inverse of `as_tensors`."""
    if isinstance(value, dict):
        return {key: as_arrays(item) for key, item in value.items()}
    return value.numpy() if isinstance(value, Tensor) else value

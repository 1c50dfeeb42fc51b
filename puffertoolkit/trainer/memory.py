"""How much memory a training will take, told before it starts, and refused if it cannot fit."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import torch
from gymnasium.spaces import Box
from torch import Tensor, nn

from puffertoolkit.config.schema import TrainConfig
from puffertoolkit.errors import UserError
from puffertoolkit.policies.interfaces import ActorCritic
from puffertoolkit.trainer.experience import Experience
from puffertoolkit.vector import Vector

PROBE_SEGMENTS = 2
"""Segments that go through the network to see what it keeps for its gradient."""
BACKWARD = 1.5
"""The gradient pass needs room beside what the forward pass kept; so much was seen for MLP and LSTM."""
FLOATS_PER_STEP = 10
"""Advantages, ratios, returns and the like, per agent step of the batch."""


@dataclass(frozen=True)
class Memory:
    """Bytes that a training adds to what the process has when its environments and its policy are built.

    Attributes:
        experience: the buffer of one rollout, and what is calculated of it.
        minibatch: a copy of some of its segments.
        network: what a forward and backward pass keeps.
        optimizer: gradients and moments.
    """

    experience: int
    minibatch: int
    network: int
    optimizer: int

    @property
    def total(self) -> int:
        """All together."""
        return self.experience + self.minibatch + self.network + self.optimizer

    def __str__(self) -> str:
        update = self.minibatch + self.network + self.optimizer
        return (
            f"about {_size(self.total)}: {_size(self.experience)} of experience, {_size(update)} for updates"
        )


def needed_memory(cfg: TrainConfig, vector: Vector, policy: nn.Module) -> Memory:
    """Estimate what the training will take, of the memory of the device where `policy` lives.

    The buffer is counted exactly; what the network keeps is measured on a few segments.
    """
    num_agents = vector.num_agents
    segments = min(num_agents, max(1, cfg.minibatch_size // cfg.horizon))
    at_once = segments
    if cfg.device_batch_size is not None:
        at_once = min(segments, max(1, cfg.device_batch_size // cfg.horizon))
    observation = torch.from_numpy(vector.observations)
    space = vector.single_action_space
    kind = torch.float32 if isinstance(space, Box) else torch.int64
    action = torch.zeros((num_agents, *(space.shape or ())), dtype=kind)
    state = cast(ActorCritic, policy).initial_state(num_agents)
    # On the device "meta" tensors have a shape and a type, and no memory.
    meta = torch.device("meta")
    buffer = Experience.allocate(cfg.horizon, observation, action, state, meta)
    experience = sum(tensor.nbytes for tensor in _tensors(buffer))
    few = min(PROBE_SEGMENTS, num_agents)
    kept = _kept_for_gradient(policy, observation[:few], action[:few], cfg.horizon) / few
    parameters = sum(p.nbytes for p in policy.parameters() if p.requires_grad)
    return Memory(
        experience=experience + 4 * FLOATS_PER_STEP * cfg.horizon * num_agents,
        minibatch=experience * segments // num_agents,
        network=int(BACKWARD * kept * at_once),
        optimizer=parameters * 3,
    )


def require_memory(needed: Memory, device: torch.device) -> None:
    """Raise a UserError that says what to lower if `needed` is more than `device` has to give."""
    available = available_memory(device)
    if available is None or needed.total <= available:
        return
    ways = {
        "train.device_batch_size": needed.network,
        "train.minibatch_size": needed.minibatch + needed.network,
        "vec.num_envs or train.horizon": needed.experience,
    }
    # What would save the most first; without it, nothing else helps.
    order = sorted(ways, key=lambda key: -ways[key])
    raise UserError(
        f"The training will take {needed}; {device} has {_size(available)} to give. Lower "
        f"{', '.join(order[:-1])} or {order[-1]}."
    )


def available_memory(device: torch.device) -> int | None:
    """Bytes that this process can still get on `device`; None where that cannot be told."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    if device.type != "cpu":
        return None
    limits = [limit for limit in (_free_of_machine(), *_free_of_groups()) if limit is not None]
    return min(limits, default=None)


def _free_of_machine() -> int | None:
    if sys.platform == "linux":
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    names = getattr(os, "sysconf_names", {})
    if "SC_PHYS_PAGES" in names and "SC_PAGE_SIZE" in names:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return None


def _free_of_groups(
    root: Path = Path("/sys/fs/cgroup"), own: Path = Path("/proc/self/cgroup")
) -> Iterator[int]:
    """Yield what the control groups of this process leave it, of version 1 or 2, as in a container."""
    try:
        lines = own.read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            base, names = root, ("memory.max", "memory.current", "inactive_file")
        elif "memory" in controllers.split(","):
            base = root / "memory"
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
        else:
            continue
        folder = base / path.lstrip("/")
        # A container often sees its own group as the root. A limit may stand at any level above.
        for group in (folder, *folder.parents):
            if (free := _free_of_group(group, *names)) is not None:
                yield free
            if group == base:
                break


def _free_of_group(group: Path, limit_name: str, usage_name: str, reclaimable: str) -> int | None:
    try:
        limit = (group / limit_name).read_text().strip()
        usage = int((group / usage_name).read_text())
        rows = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
    except (OSError, ValueError):
        return None
    # Version 2 says "max" for no limit, version 1 a number near 2**63. File cache gives way when asked to.
    if not limit.isdecimal() or int(limit) >= 2**60:
        return None
    return max(0, int(limit) - usage + int(rows.get(reclaimable, 0)))


def _kept_for_gradient(policy: nn.Module, observation: Tensor, action: Tensor, horizon: int) -> int:
    """Bytes that autograd keeps of a forward pass over as many segments as `observation` has rows."""
    device = next((p.device for p in policy.parameters()), torch.device("cpu"))
    few = len(observation)
    acting = cast(ActorCritic, policy)
    state = tuple(part.to(device) for part in acting.initial_state(few))
    observations = observation.to(device).expand(horizon, *observation.shape).clone()
    actions = action.to(device).expand(horizon, *action.shape).clone()
    done = torch.zeros(horizon, few, dtype=torch.bool, device=device)
    # The same memory is kept under many names: by where it lies it is counted once. The weights are there
    # already.
    weights = {p.untyped_storage().data_ptr() for p in policy.parameters()}
    held: dict[int, int] = {}
    alive: list[Tensor] = []

    def pack(tensor: Tensor) -> Tensor:
        alive.append(tensor)
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            held[storage.data_ptr()] = storage.nbytes()
        return tensor

    # Chance that a policy may use here must not change the run.
    with (
        torch.random.fork_rng(devices=[device] if device.type == "cuda" else []),
        torch.autograd.graph.saved_tensors_hooks(pack, _unchanged),
    ):
        dist, values, _ = acting.sequence(observations, state, done)
        kept = dist.log_prob(actions).exp().sum() + dist.entropy().sum() + values.square().sum()
    del kept
    return sum(held.values())


def _unchanged(tensor: Tensor) -> Tensor:
    return tensor


def _tensors(buffer: Experience) -> Iterator[Tensor]:
    for value in vars(buffer).values():
        yield from value if isinstance(value, tuple) else (value,)


def _size(number: float) -> str:
    """Bytes in words of three digits: "1.42 GB", "310 MB"."""
    unit = "MB" if number < 999.5e6 else "GB"
    return f"{number / (1e6 if unit == 'MB' else 1e9):.3g} {unit}"

"""What every mode that runs a policy needs: device, environments and network, built from the config."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from omegaconf import DictConfig
from torch import nn

from puffertoolkit.allocator import keep_freed_memory
from puffertoolkit.config.build import build_env, build_policy
from puffertoolkit.errors import UserError
from puffertoolkit.logger.progress import RunInfo
from puffertoolkit.policies import describe
from puffertoolkit.run.checkpoint import Checkpoint
from puffertoolkit.seeding import SeedTree
from puffertoolkit.threads import set_threads, settle_threads
from puffertoolkit.vector import Vector, make_vector


@dataclass
class Session:
    """Environments and a policy that fits them, on one device."""

    env_name: str
    device: torch.device
    num_threads: int
    seeds: SeedTree
    vector: Vector
    policy: nn.Module

    @classmethod
    def build(cls, cfg: DictConfig, num_envs: int) -> Session:
        """Build everything that `cfg` describes, with `num_envs` copies of the environment."""
        keep_freed_memory()
        # Threads first: kernels share Torch's pool only where Torch was there before them.
        num_threads = set_threads(cfg.num_threads)
        device = resolve_device(cfg.device)
        seeds = SeedTree(cfg.seed)
        vector = make_vector(
            cfg.vec.backend, partial(build_env, cfg.env, trust=list(cfg.trust)), num_envs, num_threads
        )
        settle_threads(num_threads)
        torch.manual_seed(seeds.policy_init)
        policy: nn.Module = build_policy(
            cfg.policy,
            vector.single_observation_space,
            vector.single_action_space,
            trust=list(cfg.trust),
        )
        return cls(env_name(cfg), device, num_threads, seeds, vector, policy.to(device))

    @property
    def num_parameters(self) -> int:
        """Weights of the policy that are trained."""
        return sum(p.numel() for p in self.policy.parameters() if p.requires_grad)

    @property
    def device_name(self) -> str:
        """The device, and of a GPU its model: "cuda:0 (NVIDIA A100)"."""
        if self.device.type != "cuda":
            return str(self.device)
        return f"{self.device} ({torch.cuda.get_device_name(self.device)})"

    def run_info(self, run_dir: Path, total_steps: int) -> RunInfo:
        """What a display needs to know of a training to `total_steps` agent steps."""
        return RunInfo(self.env_name, policy_summary(self), str(self.device), run_dir, total_steps)

    def manifest(self) -> dict[str, Any]:
        """What a checkpoint must match to be loaded, and a summary of the network."""
        return {
            "env": self.env_name,
            "observation_space": str(self.vector.single_observation_space),
            "action_space": str(self.vector.single_action_space),
            "policy": describe(self.policy),
        }


def load_weights(session: Session, checkpoint: Checkpoint) -> None:
    """Put the checkpoint's weights into the session's policy.

    Raises:
        UserError: they are of another environment or another network.
    """
    wanted, found = session.manifest(), checkpoint.manifest
    for key, what in (("observation_space", "observations"), ("action_space", "actions")):
        if wanted[key] != found[key]:
            raise UserError(
                f"The checkpoint {checkpoint.path} was trained on '{found['env']}' with the {what} "
                f"{found[key]}; '{session.env_name}' as configured here has {wanted[key]}. Leave out env= "
                "and env.* overrides to evaluate it on the environment it knows."
            )
    try:
        session.policy.load_state_dict(checkpoint.weights)
    except RuntimeError as error:
        raise UserError(
            f"The weights in {checkpoint.path} do not fit the policy as configured here: {error} "
            "Leave out policy= and policy.* overrides to use the network that was trained."
        ) from error


def env_name(cfg: DictConfig) -> str:
    """The environment's short name: the last part of its `_target_`, in lower case."""
    return str(cfg.env.get("_target_", "env")).rpartition(".")[2].lower()


def policy_summary(session: Session) -> str:
    """The policy in a few words: "Policy, 15,748 parameters"."""
    parts = [type(session.policy).__name__]
    core = getattr(session.policy, "core", None)
    if core is not None and any(True for _ in core.parameters()):
        parts.append(type(core).__name__.removesuffix("Core"))
    return f"{' '.join(parts)}, {session.num_parameters:,} parameters"


def resolve_device(name: str) -> torch.device:
    """The device that `name` means: auto takes a GPU where there is one."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise UserError(
            f"device={name} cannot be used here ({reason}). Try device=auto or device=cpu."
        ) from error
    return device

"""What the learner sees of rewards: scaled and clamped, if asked."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from puffertoolkit.config.schema import TrainConfig
from puffertoolkit.policies.normalizer import merge_moments
from puffertoolkit.trainer.experience import Experience

EPSILON = 1e-8


class RewardShaper:
    """Divides rewards by the running deviation of the discounted return, then clamps them; both optional.

    The return G_t = R_t + gamma G_{t-1} runs through the episode from its start, one per agent, as in
    Engstrom et al. 2020 (arXiv:2005.12729). Its variance over all steps so far is merged rollout by rollout
    in float64, and one rollout is scaled by one number: results cannot depend on how it is
    cut into batches. What the environment reports of its episodes is not touched.
    """

    def __init__(self, cfg: TrainConfig, num_agents: int, device: torch.device) -> None:
        self.normalize, self.clip, self.gamma = cfg.normalize_rewards, cfg.reward_clip, cfg.gamma
        self._returns = torch.zeros(num_agents, device=device)
        self._count, self._mean, self._variance = (torch.zeros((), device=device) for _ in range(3))
        if device.type != "mps":  # which has no float64
            self._count, self._mean, self._variance = (
                tensor.double() for tensor in (self._count, self._mean, self._variance)
            )

    def apply(self, experience: Experience) -> None:
        """Shape the rewards of a rollout in place."""
        if self.normalize:
            self._update(experience)
            experience.rewards /= (self._variance + EPSILON).sqrt().float()
        if self.clip is not None:
            experience.rewards.clamp_(-self.clip, self.clip)

    def _update(self, experience: Experience) -> None:
        returns = self._discounted_returns(experience)
        kind = self._count.dtype
        count = experience.masks.sum(dtype=kind)
        some = count.clamp(min=1)
        mean = returns.where(experience.masks, 0).sum(dtype=kind) / some
        variance = (returns - mean.float()).square().where(experience.masks, 0).sum(dtype=kind) / some
        self._count, self._mean, self._variance = merge_moments(
            (self._count, self._mean, self._variance), (count, mean, variance)
        )

    def _discounted_returns(self, experience: Experience) -> Tensor:
        """G_t (T, N); those under way at the end are kept for the next rollout."""
        returns = torch.empty_like(experience.rewards)
        if returns.device.type == "cpu":
            from puffertoolkit.trainer.recursion import returns_pass

            arrays = [part.numpy() for part in (experience.rewards, experience.ends, experience.masks)]
            returns_pass(*arrays, np.float32(self.gamma), self._returns.numpy(), returns.numpy())
            return returns
        for t in range(experience.horizon):
            reward = experience.rewards[t].where(experience.masks[t], 0)
            torch.add(reward, self._returns, alpha=self.gamma, out=returns[t])
            self._returns = returns[t].where(~experience.ends[t], 0)
        return returns

    def state_dict(self) -> dict[str, Any]:
        """What the next rollout's scale depends on."""
        names = ("_returns", "_count", "_mean", "_variance")
        return {name.strip("_"): getattr(self, name).cpu().clone() for name in names}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Take up what `state_dict` gave."""
        for name, value in state.items():
            setattr(self, f"_{name}", value.to(self._returns.device, copy=True))

"""Learning from one rollout: minibatches of segments, shuffled or drawn by priority."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from puffertoolkit.config.schema import TrainConfig
from puffertoolkit.policies.interfaces import ActorCritic
from puffertoolkit.trainer.advantage import advantage, explained_variance
from puffertoolkit.trainer.experience import Experience
from puffertoolkit.trainer.loss import ppo_loss
from puffertoolkit.trainer.optim import Optimizer


class Learner:
    """Improves a policy by `update_epochs` passes over each rollout."""

    def __init__(
        self, policy: ActorCritic, optimizer: Optimizer, cfg: TrainConfig, generator: torch.Generator
    ) -> None:
        self.policy, self.optimizer, self.cfg = policy, optimizer, cfg
        self._generator = generator

    def update(self, experience: Experience, progress: float) -> dict[str, Tensor]:
        """Learn from `experience`; returns means of losses as 0-d tensors.

        Args:
            experience: one rollout.
            progress: share of the training that is done, 0 … 1; anneals the correction of priorities.
        """
        ratios = torch.ones_like(experience.logprobs)
        history: list[dict[str, Tensor]] = []
        for _ in range(self.cfg.update_epochs):
            for index, weights in self._minibatches(experience, ratios, progress):
                history.append(self._descend(experience.segments(index), index, weights, ratios))
        estimates = self.advantage(experience, None)
        quality = explained_variance(experience.values, experience.values + estimates, experience.masks)
        means = {name: torch.stack([row[name] for row in history]).mean() for name in history[0]}
        return {**means, "train/explained_variance": quality}

    def _descend(
        self, batch: Experience, index: Tensor, weights: Tensor | None, ratios: Tensor
    ) -> dict[str, Tensor]:
        dist, new_values, _ = self.policy.sequence(batch.observations, batch.initial_state, batch.starts)
        log_ratios = dist.log_prob(batch.actions) - batch.logprobs
        log_ratios = log_ratios.where(batch.masks, 0)
        live = log_ratios.detach().exp()
        ratios.index_copy_(1, index, live)
        loss = ppo_loss(dist, new_values, log_ratios, batch, self.advantage(batch, live), weights, self.cfg)
        return {**loss.parts(), "train/grad_norm": self.optimizer.step(loss.total)}

    def advantage(self, batch: Experience, ratios: Tensor | None) -> Tensor:
        """Advantages (T, B): with V-trace clipping of `ratios` where configured, else plain GAE."""
        cfg = self.cfg
        plain = cfg.vtrace_rho_clip is None and cfg.vtrace_c_clip is None
        return advantage(
            batch,
            cfg.gamma,
            cfg.gae_lambda,
            None if plain else ratios,
            cfg.vtrace_rho_clip,
            cfg.vtrace_c_clip,
        )

    def _minibatches(
        self, experience: Experience, ratios: Tensor, progress: float
    ) -> Iterator[tuple[Tensor, Tensor | None]]:
        """Segments (B,) of each minibatch of one epoch, with their importance weights."""
        cfg = self.cfg
        segments = cfg.minibatch_size // cfg.horizon
        device = experience.rewards.device
        if cfg.priority_alpha == 0:
            order = torch.randperm(experience.num_agents, generator=self._generator).to(device)
            yield from ((index, None) for index in torch.split(order, segments))
            return
        beta = cfg.priority_beta + (1 - cfg.priority_beta) * progress
        for _ in range(max(1, experience.num_agents // segments)):
            estimates = self.advantage(experience, ratios).where(experience.masks, 0)
            probabilities = priorities(estimates, cfg.priority_alpha)
            # The draw is made on the CPU, where one seed gives one order whatever the device.
            index = torch.multinomial(probabilities.cpu(), segments, True, generator=self._generator).to(
                device
            )
            weights = (experience.num_agents * probabilities[index]) ** -beta
            yield index, weights


def priorities(advantages: Tensor, alpha: float) -> Tensor:
    """Probability of each segment, (N,): proportional to (sum over t of |A|) ** alpha.

    Prioritised replay (Schaul et al. 2015, arXiv:1511.05952) over the segments of one rollout.
    """
    weights = advantages.abs().sum(0).pow(alpha)
    total = weights.sum()
    uniform = torch.full_like(weights, 1 / weights.numel())
    # Not finite: whatever is drawn, the loss will tell; a sampler that dies first would hide it.
    return torch.where((total > 0) & torch.isfinite(total), weights / total, uniform)

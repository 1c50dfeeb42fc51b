"""Learning from one rollout: minibatches of segments, shuffled or drawn by priority."""

from __future__ import annotations

import time
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from puffertoolkit.config.schema import TrainConfig
from puffertoolkit.policies.interfaces import ActorCritic, Distribution
from puffertoolkit.trainer.advantage import advantage, explained_variance
from puffertoolkit.trainer.experience import Experience
from puffertoolkit.trainer.finite import require_finite_update
from puffertoolkit.trainer.loss import Targets, ppo_loss
from puffertoolkit.trainer.optim import Optimizer
from puffertoolkit.trainer.precision import compiled, precision

Row = dict[str, Tensor]


class Learner:
    """Improves a policy by `update_epochs` passes over each rollout."""

    def __init__(
        self, policy: ActorCritic, optimizer: Optimizer, cfg: TrainConfig, generator: torch.Generator
    ) -> None:
        self.policy, self.optimizer, self.cfg = policy, optimizer, cfg
        self._generator = generator
        self._sequence = compiled(policy.sequence) if cfg.compile else policy.sequence

    def update(self, experience: Experience, progress: float) -> Row:
        """Learn from `experience`; returns means of losses as 0-d tensors.

        Args:
            experience: one rollout.
            progress: share of the training that is done, 0 … 1; anneals the correction of priorities.

        Raises:
            NotFiniteError: a loss or a gradient is not finite; the step is not made.
        """
        ratios = torch.ones_like(experience.logprobs)
        history: list[Row] = []
        for _ in range(self.cfg.update_epochs):
            for index, weights in self._minibatches(experience, ratios, progress):
                history.append(self._descend(experience.segments(index), index, weights, ratios))
        estimates = self.advantage(experience, None)
        quality = explained_variance(experience.values, experience.values + estimates, experience.masks)
        if (learn_statistics := getattr(self.policy, "update_statistics", None)) is not None:
            learn_statistics(experience.observations, experience.masks)
        means = {name: torch.stack([row[name] for row in history]).mean() for name in history[0]}
        return {**means, "train/explained_variance": quality}

    def warm_up(self, experience: Experience) -> float:
        """Run the network once, forward and backward, in the shape of an update; returns the seconds.

        With `compile` that is when it is compiled.
        """
        begun = time.perf_counter()
        segments = min(self.cfg.minibatch_size // self.cfg.horizon, experience.num_agents)
        _, values, log_ratios = self._forward(experience.some(self._parts(segments)[0]))
        (values.sum() + log_ratios.sum()).backward()  # type: ignore[no-untyped-call]
        self.optimizer.zero_grad()
        return time.perf_counter() - begun

    def _descend(self, batch: Experience, index: Tensor, weights: Tensor | None, ratios: Tensor) -> Row:
        """Make one gradient step on a minibatch, in as many parts as `device_batch_size` asks for."""
        parts = self._parts(batch.num_agents)
        self.optimizer.zero_grad()
        if len(parts) == 1:
            dist, values, log_ratios = self._forward(batch)
            live = log_ratios.detach().exp()
            targets = Targets.of(batch, self.advantage(batch, live), weights, self.cfg)
            loss, row = ppo_loss(dist, values, log_ratios, batch, targets, self.cfg)
            loss.backward()  # type: ignore[no-untyped-call]
        else:
            live = self._live_ratios(batch, parts)
            targets = Targets.of(batch, self.advantage(batch, live), weights, self.cfg)
            rows = [self._accumulate(batch.some(part), targets.part(part)) for part in parts]
            row = {name: torch.stack([each[name] for each in rows]).sum() for name in rows[0]}
        ratios.index_copy_(1, index, live)
        row["train/grad_norm"] = self.optimizer.clip_gradients()
        if isinstance(self.policy, nn.Module):
            require_finite_update(row, self.policy, live, index)
        self.optimizer.step()
        return row

    def _accumulate(self, batch: Experience, targets: Targets) -> Row:
        dist, values, log_ratios = self._forward(batch)
        loss, row = ppo_loss(dist, values, log_ratios, batch, targets, self.cfg)
        loss.backward()  # type: ignore[no-untyped-call]
        return row

    def _forward(self, batch: Experience) -> tuple[Distribution, Tensor, Tensor]:
        """The present policy's distribution, values (T, B) and log ratios (T, B) of a batch."""
        with precision(self.cfg.precision, batch.rewards.device):
            dist, values, _ = self._sequence(batch.observations, batch.initial_state, batch.starts)
        log_ratios = dist.log_prob(batch.actions) - batch.logprobs
        return dist, values.float(), log_ratios.where(batch.masks, 0)

    @torch.no_grad()
    def _live_ratios(self, batch: Experience, parts: list[slice]) -> Tensor:
        if not self._clips_ratios:
            return torch.ones_like(batch.logprobs)
        # Advantages are normalised over the whole minibatch and clipped by its ratios: the parts need both
        # before the first of them descends.
        return torch.cat([self._forward(batch.some(part))[2].exp() for part in parts], 1)

    def _parts(self, segments: int) -> list[slice]:
        size = self.cfg.device_batch_size
        each = segments if size is None else max(1, size // self.cfg.horizon)
        return [slice(start, min(start + each, segments)) for start in range(0, segments, each)]

    def advantage(self, batch: Experience, ratios: Tensor | None) -> Tensor:
        """Advantages (T, B): with V-trace clipping of `ratios` where configured, else plain GAE."""
        cfg = self.cfg
        live = ratios if self._clips_ratios else None
        return advantage(batch, cfg.gamma, cfg.gae_lambda, live, cfg.vtrace_rho_clip, cfg.vtrace_c_clip)

    @property
    def _clips_ratios(self) -> bool:
        return self.cfg.vtrace_rho_clip is not None or self.cfg.vtrace_c_clip is not None

    def _minibatches(
        self, experience: Experience, ratios: Tensor, progress: float
    ) -> Iterator[tuple[Tensor, Tensor | None]]:
        """Segments (B,) of each minibatch of one epoch, with their importance weights."""
        cfg = self.cfg
        segments = cfg.minibatch_size // cfg.horizon
        device = experience.rewards.device
        if cfg.priority_alpha == 0:
            order = torch.randperm(experience.num_agents, generator=self._generator, device=device)
            yield from ((index, None) for index in torch.split(order, segments))
            return
        beta = cfg.priority_beta + (1 - cfg.priority_beta) * progress
        for start in range(0, experience.num_agents, segments):
            draws = min(segments, experience.num_agents - start)
            estimates = self.advantage(experience, ratios).where(experience.masks, 0)
            probabilities = priorities(estimates, cfg.priority_alpha)
            index = torch.multinomial(probabilities, draws, True, generator=self._generator)
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

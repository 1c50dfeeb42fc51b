"""The clipped PPO loss over segments."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from puffertoolkit.config.schema import TrainConfig
from puffertoolkit.policies.interfaces import Distribution
from puffertoolkit.trainer.experience import Experience


@dataclass
class Targets:
    """What a minibatch is to learn, and by how many steps its means divide; no gradients.

    Attributes:
        advantages: (T, B), normalised and weighted as configured; what the policy loss sees.
        returns: (T, B), what the critic shall predict.
        count: 0-d, the steps of living agents in the whole minibatch.
    """

    advantages: Tensor
    returns: Tensor
    count: Tensor

    @classmethod
    def of(cls, batch: Experience, advantages: Tensor, weights: Tensor | None, cfg: TrainConfig) -> Targets:
        """Make the targets of a whole minibatch.

        Args:
            batch: the segments, (T, B).
            advantages: (T, B), as estimated.
            weights: (B,) importance weights of the segments, None for all ones.
            cfg: says whether to normalise.
        """
        returns = advantages + batch.values
        if cfg.normalize_advantage:
            advantages = normalize(advantages, batch.masks)
        if weights is not None:
            advantages = advantages * weights
        return cls(advantages, returns, batch.masks.sum().clamp(min=1))

    def part(self, rows: slice) -> Targets:
        """Those of some of the segments; means still divide by all."""
        return Targets(self.advantages[:, rows], self.returns[:, rows], self.count)


def ppo_loss(
    dist: Distribution,
    new_values: Tensor,
    log_ratios: Tensor,
    batch: Experience,
    targets: Targets,
    cfg: TrainConfig,
) -> tuple[Tensor, dict[str, Tensor]]:
    """Schulman et al. 2017 (arXiv:1707.06347), with optional clipping of the value step.

    Args:
        dist: the present policy's distributions over (T, B) actions.
        new_values: (T, B), the present critic's values.
        log_ratios: (T, B), log of present over sampling probability of the actions taken.
        batch: the segments, or some of a minibatch's; its masks say which rows count.
        targets: theirs.
        cfg: coefficients.

    Returns:
        The scalar to descend, and what goes into the metrics, detached 0-d tensors. Of a part of a minibatch
        both are its share of the sum over all parts.
    """

    def mean(x: Tensor) -> Tensor:
        return x.where(batch.masks, 0).sum() / targets.count

    ratios = log_ratios.exp()
    clipped = ratios.clamp(1 - cfg.clip_coef, 1 + cfg.clip_coef)
    policy = -mean((targets.advantages * ratios).minimum(targets.advantages * clipped))

    value_errors = (new_values - targets.returns).square()
    if cfg.vf_clip_coef is not None:
        near = batch.values + (new_values - batch.values).clamp(-cfg.vf_clip_coef, cfg.vf_clip_coef)
        value_errors = value_errors.maximum((near - targets.returns).square())
    value = 0.5 * mean(value_errors)

    entropy = mean(dist.entropy())
    with torch.no_grad():
        # Schulman's estimator, unbiased and never negative: http://joschu.net/blog/kl-approx.html
        approx_kl = mean(ratios - 1 - log_ratios)
        clip_fraction = mean(((ratios - 1).abs() > cfg.clip_coef).float())
    parts = {
        "loss/policy": policy.detach(),
        "loss/value": value.detach(),
        "loss/entropy": entropy.detach(),
        "train/approx_kl": approx_kl,
        "train/clip_fraction": clip_fraction,
    }
    return policy + cfg.vf_coef * value - cfg.ent_coef * entropy, parts


def masked_mean(x: Tensor, masks: Tensor) -> Tensor:
    """Mean of `x` where `masks`; what a padding row holds, even NaN, changes nothing."""
    return x.where(masks, 0).sum() / masks.sum().clamp(min=1)


def normalize(x: Tensor, masks: Tensor) -> Tensor:
    """`x` shifted and scaled to mean 0 and deviation 1 over `masks`."""
    mean = masked_mean(x, masks)
    deviation = masked_mean((x - mean).square(), masks).sqrt()
    return (x - mean) / (deviation + 1e-8)

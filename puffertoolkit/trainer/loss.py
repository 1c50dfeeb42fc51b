"""The clipped PPO loss over a batch of segments."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from puffertoolkit.config.schema import TrainConfig
from puffertoolkit.policies.interfaces import Distribution
from puffertoolkit.trainer.experience import Experience


@dataclass
class Loss:
    """The scalar to descend, and what is worth watching; all 0-d tensors."""

    total: Tensor
    policy: Tensor
    value: Tensor
    entropy: Tensor
    approx_kl: Tensor
    clip_fraction: Tensor

    def parts(self) -> dict[str, Tensor]:
        """What goes into the metrics, detached."""
        return {
            "loss/policy": self.policy.detach(),
            "loss/value": self.value.detach(),
            "loss/entropy": self.entropy.detach(),
            "train/approx_kl": self.approx_kl,
            "train/clip_fraction": self.clip_fraction,
        }


def ppo_loss(
    dist: Distribution,
    new_values: Tensor,
    log_ratios: Tensor,
    batch: Experience,
    advantages: Tensor,
    weights: Tensor | None,
    cfg: TrainConfig,
) -> Loss:
    """Schulman et al. 2017 (arXiv:1707.06347), with optional clipping of the value step.

    Args:
        dist: the present policy's distributions over (T, B) actions.
        new_values: (T, B), the present critic's values.
        log_ratios: (T, B), log of present over sampling probability of the actions taken.
        batch: the segments; its masks say which rows count.
        advantages: (T, B), no gradient.
        weights: (B,) importance weights of the segments, None for all ones.
        cfg: coefficients.
    """
    masks = batch.masks
    returns = advantages + batch.values
    if cfg.normalize_advantage:
        advantages = normalize(advantages, masks)
    if weights is not None:
        advantages = advantages * weights

    ratios = log_ratios.exp()
    clipped = ratios.clamp(1 - cfg.clip_coef, 1 + cfg.clip_coef)
    policy = -masked_mean((advantages * ratios).minimum(advantages * clipped), masks)

    value_errors = (new_values - returns).square()
    if cfg.vf_clip_coef is not None:
        near = batch.values + (new_values - batch.values).clamp(-cfg.vf_clip_coef, cfg.vf_clip_coef)
        value_errors = value_errors.maximum((near - returns).square())
    value = 0.5 * masked_mean(value_errors, masks)

    entropy = masked_mean(dist.entropy(), masks)
    ratios, log_ratios = ratios.detach(), log_ratios.detach()
    return Loss(
        total=policy + cfg.vf_coef * value - cfg.ent_coef * entropy,
        policy=policy,
        value=value,
        entropy=entropy,
        # Schulman's estimator, unbiased and never negative: http://joschu.net/blog/kl-approx.html
        approx_kl=masked_mean(ratios - 1 - log_ratios, masks),
        clip_fraction=masked_mean(((ratios - 1).abs() > cfg.clip_coef).float(), masks),
    )


def masked_mean(x: Tensor, masks: Tensor) -> Tensor:
    """Mean of `x` where `masks`; what a padding row holds, even NaN, changes nothing."""
    return x.where(masks, 0).sum() / masks.sum().clamp(min=1)


def normalize(x: Tensor, masks: Tensor) -> Tensor:
    """`x` shifted and scaled to mean 0 and deviation 1 over `masks`."""
    mean = masked_mean(x, masks)
    deviation = masked_mean((x - mean).square(), masks).sqrt()
    return (x - mean) / (deviation + 1e-8)

"""Generalised advantage estimation with V-trace clipping of importance ratios."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from puffertoolkit.trainer.experience import Experience
from puffertoolkit.trainer.loss import masked_mean


def advantage(
    experience: Experience,
    gamma: float,
    gae_lambda: float,
    ratios: Tensor | None = None,
    rho_clip: float | None = None,
    c_clip: float | None = None,
) -> Tensor:
    r"""How much better each action was than the critic expected, (T, N) float32.

    With :math:`\rho_t = \min(\bar\rho, r_t)`, :math:`c_t = \min(\bar c, r_t)` of the importance ratios
    :math:`r_t = \pi(a_t|s_t) / \mu(a_t|s_t)`, and :math:`V'_t` the value of what followed step t:

    .. math::
        \delta_t &= \rho_t (R_t + \gamma V'_t - V_t) \\
        A_t &= \delta_t + \gamma \lambda c_t (1 - \mathrm{end}_t) A_{t+1}

    Equal to GAE (Schulman et al. 2016, arXiv:1506.02438) where all ratios are 1, and for λ = 1 to
    :math:`v_t - V_t` of V-trace (Espeholt et al. 2018, arXiv:1802.01561, eq. 1).

    Args:
        experience: gives rewards, values, next_values, ends and masks, each (T, N); 0 where masked out.
        gamma: discount per step.
        gae_lambda: λ.
        ratios: (T, N) importance ratios; None for all ones.
        rho_clip: upper limit of ρ; None for infinity.
        c_clip: upper limit of c; None for infinity.
    """
    run = _compiled if experience.rewards.device.type == "cpu" else _stepwise
    rho_clip, c_clip = (math.inf if clip is None else clip for clip in (rho_clip, c_clip))
    return run(experience, gamma, gae_lambda, ratios, rho_clip, c_clip)


def _stepwise(
    experience: Experience,
    gamma: float,
    gae_lambda: float,
    ratios: Tensor | None,
    rho_clip: float,
    c_clip: float,
) -> Tensor:
    """On any device: a few operators per step over all segments."""
    deltas = experience.rewards + gamma * experience.next_values - experience.values
    # Where no agent was, whatever stands in the buffer must not flow backwards through the recursion.
    deltas = deltas.where(experience.masks, 0)
    carry = (gamma * gae_lambda) * (~experience.ends).to(deltas.dtype)
    if ratios is not None:
        deltas *= ratios.clamp(max=rho_clip)
        carry *= ratios.clamp(max=c_clip)
    for t in reversed(range(experience.horizon - 1)):
        deltas[t].addcmul_(carry[t], deltas[t + 1])
    return deltas


def _compiled(
    experience: Experience,
    gamma: float,
    gae_lambda: float,
    ratios: Tensor | None,
    rho_clip: float,
    c_clip: float,
) -> Tensor:
    """On a CPU: one compiled pass."""
    # Numba takes half a second to import: who only evaluates does not need it.
    from puffertoolkit.trainer.recursion import advantage_pass

    names = ("rewards", "values", "next_values", "ends", "masks")
    arrays = [getattr(experience, name).contiguous().numpy() for name in names]
    number = arrays[0].dtype.type
    factors = [number(factor) for factor in (gamma, gae_lambda, rho_clip, c_clip, 0)]
    out = torch.empty_like(experience.rewards)
    live = arrays[0] if ratios is None else ratios.contiguous().numpy()
    advantage_pass(*arrays, live, ratios is not None, *factors, out.numpy())
    return out


def explained_variance(values: Tensor, returns: Tensor, masks: Tensor) -> Tensor:
    """Share of the variance of `returns` that `values` explain: 1 is perfect, 0 no better than the mean."""
    variance = _variance(returns, masks)
    unexplained = _variance(returns - values, masks)
    return torch.where(variance > 0, 1 - unexplained / variance, 0)


def _variance(x: Tensor, masks: Tensor) -> Tensor:
    """Variance of `x` where `masks`."""
    return masked_mean((x - masked_mean(x, masks)).square(), masks)

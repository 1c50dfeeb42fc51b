"""Stop a training whose numbers have left the realm of numbers, and say where."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor, nn

from puffertoolkit.errors import UserError
from puffertoolkit.trainer.experience import Experience

# The rest of the metrics may be infinite for a moment without harm, as a ratio of improbable actions is.
DECISIVE = ("loss/policy", "loss/value", "loss/entropy", "train/grad_norm")
ADVICE = (
    "Checkpoints from before are good. A smaller train.lr or train.max_grad_norm is what helps most often."
)


class NotFiniteError(Exception):
    """What is not finite, as the middle of a sentence; the trainer adds when, and what was before."""


def require_finite_rollout(experience: Experience, step: int, last: Mapping[str, float]) -> None:
    """Raise a UserError that names what is not finite in a rollout, and the agents.

    Args:
        experience: the rollout.
        step: agent steps before it.
        last: losses of the update before; empty at the first.
    """
    rewards, outputs = experience.rewards, experience.logprobs + experience.values
    # One look at everything, and a second one only if it finds something.
    if bool((torch.isfinite(rewards + outputs) | ~experience.masks).all()):
        return
    within = f"within {experience.horizon} steps after step {step:,}"
    if rows := _rows(~torch.isfinite(rewards) & experience.masks):
        raise UserError(
            f"The environment gave rewards that are not finite numbers, {within}, to {rows}. "
            "That is a fault of the environment; checkpoints from before are good."
        )
    for name, tensor in (("logits", experience.logprobs), ("values", experience.values)):
        if rows := _rows(~torch.isfinite(tensor) & experience.masks):
            raise UserError(
                f"The policy gave {name} that are not finite numbers, {within}, for {rows}. "
                f"The last finite values: {_before(last)}. {ADVICE} If observations can be infinite or NaN, "
                "that is a fault of the environment."
            )
    # Finite numbers whose sum is not: so large that the next update will tell.


def require_finite_update(
    row: Mapping[str, Tensor], policy: nn.Module, ratios: Tensor, index: Tensor
) -> None:
    """Raise a NotFiniteError that names losses, gradients and agents, before the step is made.

    On a GPU nothing is looked at here, since looking means waiting; `require_finite_losses` then finds it
    once the update is done.
    """
    if ratios.device.type != "cpu" or all(math.isfinite(row[name].item()) for name in DECISIVE):
        return
    raise NotFiniteError(
        _describe([n for n in DECISIVE if not math.isfinite(row[n].item())], policy, ratios, index)
    )


def require_finite_losses(losses: Mapping[str, float], policy: nn.Module) -> None:
    """Raise a NotFiniteError that names the losses and gradients that are not finite."""
    if bad := [name for name in DECISIVE if not math.isfinite(losses[name])]:
        raise NotFiniteError(_describe(bad, policy))


def diverged(error: NotFiniteError, step: int, last: Mapping[str, float]) -> UserError:
    """What to tell the user.

    Args:
        error: what is not finite.
        step: agent steps so far.
        last: losses of the update before; empty at the first.
    """
    return UserError(
        f"The training diverged at step {step:,}: {error}. The last finite values: {_before(last)}. {ADVICE}"
    )


def _describe(
    names: list[str], policy: nn.Module, ratios: Tensor | None = None, index: Tensor | None = None
) -> str:
    gradients = [
        name
        for name, parameter in policy.named_parameters()
        if parameter.grad is not None and not bool(torch.isfinite(parameter.grad).all())
    ]
    text = f"{', '.join(names)} {'is' if len(names) == 1 else 'are'} not finite"
    if gradients:
        text += f", nor the gradients of {_some(gradients)}"
    if ratios is not None and index is not None:
        rows = torch.zeros(int(index.max()) + 1, dtype=torch.bool)
        rows[index[~torch.isfinite(ratios).all(0)]] = True
        if agents := _rows(rows.unsqueeze(0)):
            text += f" (the policy's outputs for {agents})"
    return text


def _rows(bad: Tensor) -> str:
    """The agents of the columns of `bad` (T, N) that hold something true, in words; "" if none does."""
    agents = torch.nonzero(bad.any(0)).flatten().tolist()
    return f"{len(agents)} agents (rows {_some(agents)})" if agents else ""


def _some(names: list[object] | list[str]) -> str:
    return ", ".join(map(str, names[:8])) + (", ..." if len(names) > 8 else "")


def _before(last: Mapping[str, float]) -> str:
    if not last:
        return "none, this was the first update"
    return ", ".join(f"{name} {last[name]:.4g}" for name in DECISIVE)

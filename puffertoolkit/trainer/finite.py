"""Stop a training whose numbers have left the realm of numbers, and say where."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch

from puffertoolkit.errors import UserError
from puffertoolkit.trainer.experience import Experience

# The rest of the metrics may be infinite for a moment without harm, as a ratio of improbable actions is.
DECISIVE = ("loss/policy", "loss/value", "loss/entropy", "train/grad_norm")


def require_finite_rewards(experience: Experience, step: int) -> None:
    """Raise a UserError that names the agents whose rewards are not finite numbers."""
    bad = ~torch.isfinite(experience.rewards) & experience.masks
    if bool(bad.any()):
        agents = torch.nonzero(bad.any(0)).flatten().tolist()
        shown = ", ".join(map(str, agents[:8])) + (", ..." if len(agents) > 8 else "")
        raise UserError(
            f"The environment gave rewards that are not finite numbers, within {experience.horizon} steps "
            f"after step {step:,}, to {len(agents)} of {experience.num_agents} agents (rows {shown}). "
            "That is a fault of the environment; checkpoints from before are good."
        )


def require_finite_losses(losses: Mapping[str, float], last: Mapping[str, float], step: int) -> None:
    """Raise a UserError that names the losses that are not finite, and what they were before.

    Args:
        losses: of the update just made.
        last: of the update before; empty at the first.
        step: agent steps so far.
    """
    bad = [name for name in DECISIVE if not math.isfinite(losses[name])]
    if not bad:
        return
    before = (
        ", ".join(f"{name} {last[name]:.4g}" for name in DECISIVE) if last else "none, this was the first"
    )
    raise UserError(
        f"The training diverged at step {step:,}: {', '.join(bad)} "
        f"{'is' if len(bad) == 1 else 'are'} not finite. The last finite values: {before}. Checkpoints from "
        "before are good. A smaller train.lr or train.max_grad_norm is what helps most often."
    )

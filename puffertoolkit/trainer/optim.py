"""Optimizers and learning-rate schedules."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from puffertoolkit.config.schema import TrainConfig


class Optimizer:
    """One or two Torch optimizers that step together under one learning rate.

    "muon" gives matrices to Muon (Jordan et al. 2024), which replaces an update by the nearest orthogonal
    matrix, and everything else (biases, deviations) to Adam; "adam" and "adamw" treat all alike.
    """

    def __init__(self, parameters: Iterable[nn.Parameter], cfg: TrainConfig) -> None:
        everything = [p for p in parameters if p.requires_grad]
        matrices = [p for p in everything if p.ndim == 2] if cfg.optimizer == "muon" else []
        chosen = {id(p) for p in matrices}
        others = [p for p in everything if id(p) not in chosen]
        adam = torch.optim.AdamW if cfg.optimizer == "adamw" else torch.optim.Adam
        self.parts: list[torch.optim.Optimizer] = []
        if matrices:
            self.parts.append(
                torch.optim.Muon(
                    matrices, lr=cfg.lr, momentum=cfg.muon_momentum, weight_decay=cfg.weight_decay
                )
            )
        if others:
            betas = (cfg.adam_beta1, cfg.adam_beta2)
            decay = 0.0 if cfg.optimizer == "muon" else cfg.weight_decay
            self.parts.append(
                adam(others, lr=cfg.lr, betas=betas, eps=cfg.adam_eps, weight_decay=decay, fused=True)
            )
        self._parameters = everything
        self._max_grad_norm = cfg.max_grad_norm

    def set_lr(self, lr: float) -> None:
        """Use `lr` from the next step on."""
        for part in self.parts:
            for group in part.param_groups:
                group["lr"] = lr

    def zero_grad(self) -> None:
        """Forget the gradient."""
        for parameter in self._parameters:
            parameter.grad = None

    def clip_gradients(self) -> Tensor:
        """Shorten the gradient to `max_grad_norm`; returns its norm before, a 0-d tensor."""
        gradients = [parameter.grad for parameter in self._parameters if parameter.grad is not None]
        norm: Tensor = nn.utils.get_total_norm(gradients)
        # A norm that is no number must not spread to all gradients: where it comes from is to be named.
        nn.utils.clip_grads_with_norm_(self._parameters, self._max_grad_norm, norm.nan_to_num())
        return norm

    def step(self) -> None:
        """Make a step along the gradient."""
        for part in self.parts:
            part.step()

    def state_dict(self) -> dict[str, Any]:
        """All moments, to go on from."""
        return {str(i): part.state_dict() for i, part in enumerate(self.parts)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take up what `state_dict` gave."""
        for i, part in enumerate(self.parts):
            part.load_state_dict(state[str(i)])


def scheduled_lr(cfg: TrainConfig, step: int) -> float:
    """The learning rate after `step` agent steps: the schedule, times a linear rise from 0 at the start."""
    progress = min(1.0, step / cfg.total_timesteps)
    floor = cfg.lr * cfg.lr_min_ratio
    lr = cfg.lr
    if cfg.lr_schedule == "linear":
        lr = floor + (cfg.lr - floor) * (1 - progress)
    elif cfg.lr_schedule == "cosine":
        lr = floor + (cfg.lr - floor) * 0.5 * (1 + math.cos(math.pi * progress))
    return lr * min(1.0, step / cfg.lr_warmup_steps) if cfg.lr_warmup_steps else lr

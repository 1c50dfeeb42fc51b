"""The main loop: collect, learn, report."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from puffertoolkit.config.schema import TrainConfig
from puffertoolkit.errors import UserError
from puffertoolkit.seeding import SeedTree
from puffertoolkit.trainer.experience import Experience
from puffertoolkit.trainer.finite import (
    NotFiniteError,
    diverged,
    require_finite_losses,
    require_finite_rollout,
)
from puffertoolkit.trainer.optim import Optimizer, scheduled_lr
from puffertoolkit.trainer.rewards import RewardShaper
from puffertoolkit.trainer.rollout import Collector
from puffertoolkit.trainer.update import Learner
from puffertoolkit.vector import Vector

Row = dict[str, float]


class Trainer:
    """Trains a policy on a vector of environments.

    Args:
        cfg: the algorithm's settings.
        vector: the environments.
        policy: an ``nn.Module`` with the methods of ``policies.interfaces.ActorCritic``, on `device`.
        seeds: where the rollout, the actions and the minibatches get their randomness from.
        device: where the policy lives.

    Raises:
        UserError: a minibatch would be larger than the batch.
    """

    def __init__(
        self, cfg: TrainConfig, vector: Vector, policy: nn.Module, seeds: SeedTree, device: torch.device
    ) -> None:
        self.cfg, self.vector, self.policy, self.seeds = cfg, vector, policy, seeds
        if cfg.minibatch_size > vector.num_agents * cfg.horizon:
            raise UserError(
                f"train.minibatch_size is {cfg.minibatch_size}, and a whole batch has only "
                f"{vector.num_agents} agents * train.horizon={cfg.horizon} = "
                f"{vector.num_agents * cfg.horizon} steps. Make it smaller, or vec.num_envs larger."
            )
        self.optimizer = Optimizer(policy.parameters(), cfg)
        self.shuffle = torch.Generator().manual_seed(seeds.shuffle)
        self.collector = Collector(vector, policy, cfg.horizon, device, cfg.precision)  # type: ignore[arg-type]
        self.rewards = RewardShaper(cfg, vector.num_agents, device)
        self.learner = Learner(policy, self.optimizer, cfg, self.shuffle)  # type: ignore[arg-type]
        self.step, self.epoch = 0, 0
        self._clock = _Clock()

    def train(
        self,
        report: Callable[[Row], None],
        save: Callable[[], None],
        should_stop: Callable[[], bool] = lambda: False,
    ) -> None:
        """Train until `total_timesteps` are done or `should_stop`.

        Args:
            report: gets the metrics of every iteration.
            save: called every `checkpoint_interval_s` and at the end.
            should_stop: asked after every iteration.

        Raises:
            UserError: a reward, a loss or a gradient is not finite; nothing is saved from then on.
        """
        torch.manual_seed(self.seeds.policy_sampling)
        self.vector.reset(self.seeds.envs)
        last_save = time.monotonic()
        losses: Row = {}
        while self.progress < 1 and not should_stop():
            self._clock.start()
            lr = scheduled_lr(self.cfg, self.step)
            self.optimizer.set_lr(lr)
            experience = self.collector.collect()
            require_finite_rollout(experience, self.step, losses)
            self._clock.lap("time/rollout_s")
            losses = self._update(experience, losses)
            self._clock.lap("time/update_s")
            self.epoch += 1
            report(self._metrics(losses, lr))
            if time.monotonic() - last_save > self.cfg.checkpoint_interval_s:
                save()
                last_save = time.monotonic()
            self._clock.lap("time/log_s")
        save()

    def _update(self, experience: Experience, last: Row) -> Row:
        progress = self.progress
        self.step += int(experience.masks.sum())
        self.rewards.apply(experience)
        try:
            update = self.learner.update(experience, progress)
            # All numbers of an update are read here at once: reading one makes a GPU wait.
            losses = {name: value.item() for name, value in update.items()}
            require_finite_losses(losses, self.policy)
        except NotFiniteError as error:
            raise diverged(error, self.step, last) from None
        return losses

    @property
    def progress(self) -> float:
        """The share of `total_timesteps` that is done, 0 … 1."""
        return min(1.0, self.step / self.cfg.total_timesteps)

    def _metrics(self, losses: Row, lr: float) -> Row:
        episodes = self.vector.drain()
        # A mean over no episodes is no number: such an iteration has no row of it.
        statistics = (
            {f"env/{name}": value for name, value in episodes.items()} if episodes["episodes"] else {}
        )
        # Rollout time is the environments' and the policy's; the two are improved by different means.
        env_s, self.collector.env_s = self.collector.env_s, 0.0
        times = self._clock.drain()
        rollout_s = times.pop("time/rollout_s")
        return {
            "step": self.step,
            "epoch": self.epoch,
            "uptime_s": self._clock.uptime_s,
            "sps": self._clock.rate(self.step),
            **statistics,
            **losses,
            "train/lr": lr,
            "time/env_s": env_s,
            "time/policy_s": rollout_s - env_s,
            **times,
            "sys/memory_mb": peak_memory_mb(),
        }

    def state_dict(self) -> dict[str, Any]:
        """Everything besides the weights that the next iteration depends on, but for the environments."""
        return {
            "step": self.step,
            "epoch": self.epoch,
            "optimizer": self.optimizer.state_dict(),
            "torch_rng": torch.get_rng_state(),
            "shuffle_rng": self.shuffle.get_state(),
        }


class _Clock:
    """Where the time of an iteration goes; `log_s` is that of the iteration before."""

    def __init__(self) -> None:
        self._begun = self._last = time.perf_counter()
        self._laps: Row = {"time/log_s": 0.0}
        self._rated = (0, self._begun)

    def start(self) -> None:
        self._last = time.perf_counter()

    def lap(self, name: str) -> None:
        now = time.perf_counter()
        self._laps[name] = self._laps.get(name, 0.0) + now - self._last
        self._last = now

    def drain(self) -> Row:
        laps, self._laps = self._laps, {"time/log_s": 0.0}
        return laps

    @property
    def uptime_s(self) -> float:
        return time.perf_counter() - self._begun

    def rate(self, step: int) -> float:
        """Steps per second since the last call."""
        (step_before, before), now = self._rated, time.perf_counter()
        self._rated = (step, now)
        return (step - step_before) / (now - before)


def peak_memory_mb() -> float:
    """The most memory this process has held, in MB (10^6 bytes)."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 1e6 if sys.platform == "darwin" else peak * 1024 / 1e6

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
from puffertoolkit.trainer.clock import Clock
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
from puffertoolkit.trainer.state import as_arrays, as_tensors, random_state, set_random_state
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
        self.cfg, self.vector, self.policy, self.seeds, self.device = cfg, vector, policy, seeds, device
        if cfg.minibatch_size > vector.num_agents * cfg.horizon:
            raise UserError(
                f"train.minibatch_size is {cfg.minibatch_size}, and a whole batch has only "
                f"{vector.num_agents} agents * train.horizon={cfg.horizon} = "
                f"{vector.num_agents * cfg.horizon} steps. Make it smaller, or vec.num_envs larger."
            )
        self.optimizer = Optimizer(policy.parameters(), cfg)
        # On the device, where minibatches are drawn: a draw on the CPU would make a GPU wait.
        self.shuffle = torch.Generator(device).manual_seed(seeds.shuffle)
        self.collector = Collector(vector, policy, cfg.horizon, device, cfg.precision)  # type: ignore[arg-type]
        self.rewards = RewardShaper(cfg, vector.num_agents, device)
        self.learner = Learner(policy, self.optimizer, cfg, self.shuffle)  # type: ignore[arg-type]
        self.step, self.epoch = 0, 0
        self._losses: Row = {}
        self.clock = Clock()

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
        if self.epoch == 0:
            self.begin()
        last_save = time.monotonic()
        while self.progress < 1 and not should_stop():
            report(self.iterate())
            if time.monotonic() - last_save > self.cfg.checkpoint_interval_s:
                save()
                last_save = time.monotonic()
            self.clock.lap("time/log_s")
        save()

    def begin(self) -> None:
        """Begin episodes and random streams where the seed says."""
        torch.manual_seed(self.seeds.policy_sampling)
        self.vector.reset(self.seeds.envs)

    def iterate(self) -> Row:
        """Collect, learn, and return the metrics of both."""
        self.clock.start()
        lr = scheduled_lr(self.cfg, self.step)
        self.optimizer.set_lr(lr)
        experience = self.collector.collect()
        require_finite_rollout(experience, self.step, self._losses)
        self.clock.lap("time/rollout_s")
        self._losses = self._update(experience, self._losses)
        self.clock.lap("time/update_s")
        self.epoch += 1
        return self._metrics(self._losses, lr)

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
        times = self.clock.drain()
        rollout_s = times.pop("time/rollout_s")
        return {
            "step": self.step,
            "epoch": self.epoch,
            "uptime_s": self.clock.uptime_s,
            "sps": self.clock.rate(self.step),
            **statistics,
            **losses,
            "train/lr": lr,
            "time/env_s": env_s,
            "time/policy_s": rollout_s - env_s,
            **times,
            "sys/memory_mb": peak_memory_mb(),
        }

    def state_dict(self) -> dict[str, Any]:
        """Everything besides the weights that the next iteration depends on.

        "vector" is None where the environments cannot tell their state.
        """
        return {
            "step": self.step,
            "epoch": self.epoch,
            "uptime_s": self.clock.uptime_s,
            "optimizer": self.optimizer.state_dict(),
            "random": {"shuffle": self.shuffle.get_state(), **random_state(self.device)},
            "rewards": self.rewards.state_dict(),
            "collector": self.collector.state_dict(),
            "vector": as_tensors(self.vector.state_dict()),
        }

    def load_state_dict(self, state: dict[str, Any]) -> bool:
        """Go on from what `state_dict` gave; the policy's weights are loaded separately.

        Returns:
            Whether everything is as it was; False where the environments could not tell their state: new
            episodes begin in all of them.

        Raises:
            UserError: the state is that of other environments.
        """
        self.step, self.epoch = state["step"], state["epoch"]
        self.clock.go_on(state["uptime_s"], self.step)
        self.optimizer.load_state_dict(state["optimizer"])
        self.rewards.load_state_dict(state["rewards"])
        exact = state["vector"] is not None
        if exact:
            self.collector.load_state_dict(state["collector"])
            try:
                self.vector.load_state_dict(as_arrays(state["vector"]))
            except ValueError as error:
                raise UserError(f"The checkpoint is of other environments: {error}.") from error
        else:
            self.vector.reset(self.seeds.resumed_envs(self.epoch))
        # Last: building and resetting may have drawn from these.
        self.shuffle.set_state(state["random"]["shuffle"])
        set_random_state(state["random"], self.device)
        return exact


def peak_memory_mb() -> float:
    """The most memory this process has held, in MB (10^6 bytes)."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 1e6 if sys.platform == "darwin" else peak * 1024 / 1e6

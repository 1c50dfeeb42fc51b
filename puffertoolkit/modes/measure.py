"""How fast environments, rollouts and trainings are, and where the time of an iteration goes."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from puffertoolkit.config.schema import TrainConfig
from puffertoolkit.modes.session import Session
from puffertoolkit.trainer import update
from puffertoolkit.trainer.trainer import Trainer
from puffertoolkit.vector import Vector

ACTION_SETS = 32
"""So many steps' random actions are drawn beforehand, and played in turn."""
PARTS = ("env", "forward", "backward", "optimizer")


@dataclass(frozen=True)
class Speed:
    """Agent steps per second of each repeat."""

    sps: list[float]

    @property
    def median(self) -> float:
        """What to report."""
        return statistics.median(self.sps)

    @property
    def spread(self) -> float:
        """From the slowest to the fastest repeat, as a part of the median."""
        return (max(self.sps) - min(self.sps)) / self.median


@dataclass(frozen=True)
class Plan:
    """How long to measure.

    Attributes:
        repeats: measurements of each kind, at least 3.
        duration_s: of each.
        warmup_s: of what is done before the first, unmeasured; at least one round is.
    """

    repeats: int
    duration_s: float
    warmup_s: float

    def speed(self, work: Callable[[], int], device: torch.device) -> Speed:
        """Measure `work`, which returns how many agent steps it made."""
        repeat(work, self.warmup_s, device)
        return Speed([repeat(work, self.duration_s, device) for _ in range(self.repeats)])


def repeat(work: Callable[[], int], duration_s: float, device: torch.device) -> float:
    """Do `work` for at least `duration_s`, and once; returns agent steps per second."""
    steps, begun = 0, time.perf_counter()
    while True:
        steps += work()
        if time.perf_counter() - begun >= duration_s:
            break
    _wait(device)
    return steps / (time.perf_counter() - begun)


def simulation(vector: Vector, plan: Plan, seed: int = 0) -> Speed:
    """The environments alone, under random actions drawn beforehand."""
    vector.reset(seed)
    actions = random_actions(vector, ACTION_SETS, seed)

    def play() -> int:
        steps = 0
        for each in actions:
            # Dead agents take no step, here as in a rollout.
            steps += np.count_nonzero(vector.masks)
            vector.step(each)
        return steps

    return plan.speed(play, torch.device("cpu"))


def random_actions(vector: Vector, count: int, seed: int) -> list[npt.NDArray[Any]]:
    """Uniform actions of all agents, `count` times."""
    space = vector.single_action_space
    space.seed(seed)
    # Policies count discrete actions from 0, whatever the space's start.
    start = getattr(space, "start", 0)
    rows = [np.stack([space.sample() - start for _ in range(vector.num_agents)]) for _ in range(2)]
    rng = np.random.default_rng(seed)
    return [rng.permutation(rows[i % 2]) for i in range(count)]


def rollout(trainer: Trainer, plan: Plan) -> Speed:
    """The policy acts, the environments step, and the buffer is filled."""

    def collect() -> int:
        return int(trainer.collector.collect().masks.sum())

    return plan.speed(collect, trainer.device)


def training(trainer: Trainer, plan: Plan) -> tuple[Speed, dict[str, float]]:
    """Whole iterations; and the shares of their time by part, which sum to 1."""
    iterate = iteration(trainer)
    speed = plan.speed(iterate, trainer.device)
    watch = Stopwatch(trainer)
    with watch:
        begun = time.perf_counter()
        while time.perf_counter() - begun < plan.duration_s:
            iterate()
        _wait(trainer.device)
        total = time.perf_counter() - begun
    shares = {part: watch.seconds[part] / total for part in PARTS}
    return speed, {**shares, "rest": 1 - sum(shares.values())}


def iteration(trainer: Trainer) -> Callable[[], int]:
    """One iteration of a trainer that has begun, to be repeated at will; it returns its agent steps."""

    def iterate() -> int:
        steps = trainer.step
        trainer.iterate()
        # The schedules stand still: what is measured is the beginning of a run, again and again.
        made, trainer.step = trainer.step - steps, steps
        return made

    return iterate


class Stopwatch:
    """Puts a timer around the parts of a trainer's iteration, as long as the block lasts."""

    def __init__(self, trainer: Trainer) -> None:
        self.device = trainer.device
        self.seconds = dict.fromkeys(PARTS, 0.0)
        learner: Any = trainer.learner
        self._places: list[tuple[Any, str, str]] = [
            (trainer.vector, "step", "env"),
            (trainer.policy, "step", "forward"),
            (learner, "_forward", "forward"),
            (update, "ppo_loss", "forward"),
            (Tensor, "backward", "backward"),
            *((trainer.optimizer, name, "optimizer") for name in ("zero_grad", "clip_gradients", "step")),
        ]
        self._originals: list[Any] = []

    def __enter__(self) -> Stopwatch:
        for owner, name, part in self._places:
            original = getattr(owner, name)
            self._originals.append((owner, name, original, name in vars(owner)))
            setattr(owner, name, self._timed(original, part))
        return self

    def __exit__(self, *_: object) -> None:
        for owner, name, original, own in self._originals:
            if own:
                setattr(owner, name, original)
            else:
                delattr(owner, name)

    def _timed(self, function: Callable[..., Any], part: str) -> Callable[..., Any]:
        def timed(*arguments: Any, **named: Any) -> Any:
            _wait(self.device)
            begun = time.perf_counter()
            result = function(*arguments, **named)
            _wait(self.device)
            self.seconds[part] += time.perf_counter() - begun
            return result

        return timed


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    elif device.type == "mps":
        torch.mps.synchronize()


def measure(session: Session, train: TrainConfig, plan: Plan) -> dict[str, Any]:
    """Measure everything: the medians, every repeat, and the shares, by name."""
    speeds = {"simulation": simulation(session.vector, plan, session.seeds.envs)}
    trainer = Trainer(train, session.vector, session.policy, session.seeds, session.device)
    trainer.begin()
    speeds["rollout"] = rollout(trainer, plan)
    speeds["training"], shares = training(trainer, plan)
    return {
        "sps": {name: speed.median for name, speed in speeds.items()},
        "spread": {name: speed.spread for name, speed in speeds.items()},
        "repeats": {name: speed.sps for name, speed in speeds.items()},
        "shares": shares,
    }

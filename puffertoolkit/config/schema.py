"""Types, ranges and choices of every setting. Values live in the YAML only, so nothing here has a default.

The schema stands first in `config.yaml`'s defaults list: whatever is merged over it, from any file, must have
its keys and types. Ranges and choices are field metadata, which `puffertoolkit.config.values` checks.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hydra.core.config_store import ConfigStore
from omegaconf import MISSING


@dataclass(frozen=True)
class Range:
    """An interval of numbers; `low_open` and `high_open` exclude the ends."""

    low: float | None = None
    high: float | None = None
    low_open: bool = False
    high_open: bool = False

    def __contains__(self, value: float) -> bool:
        # Each comparison is false for NaN, which therefore lies in no range.
        above = self.low is None or (value > self.low if self.low_open else value >= self.low)
        below = self.high is None or (value < self.high if self.high_open else value <= self.high)
        return above and below and abs(value) != float("inf")

    def __str__(self) -> str:
        if self.low is not None and self.high is not None:
            left, right = "(" if self.low_open else "[", ")" if self.high_open else "]"
            return f"in {left}{self.low:g}, {self.high:g}{right}"
        if self.low is not None:
            return f"above {self.low:g}" if self.low_open else f"of at least {self.low:g}"
        return "a finite number"


def plain() -> Any:
    """A setting that its type says everything about."""
    return field(default=MISSING)


def at_least(low: float) -> Any:
    """A number not below `low`."""
    return field(default=MISSING, metadata={"range": Range(low=low)})


def above(low: float) -> Any:
    """A number greater than `low`."""
    return field(default=MISSING, metadata={"range": Range(low=low, low_open=True)})


def between(low: float, high: float, *, low_open: bool = False, high_open: bool = False) -> Any:
    """A number in an interval."""
    return field(default=MISSING, metadata={"range": Range(low, high, low_open, high_open)})


def one_of(*choices: str) -> Any:
    """One word of a few."""
    return field(default=MISSING, metadata={"choices": choices})


@dataclass
class VecConfig:
    """How environments are stepped."""

    backend: str = one_of("native", "serial")
    num_envs: int = at_least(1)


@dataclass
class TrainConfig:
    """The algorithm's settings."""

    total_timesteps: int = at_least(1)
    horizon: int = at_least(1)
    minibatch_size: int = at_least(1)
    update_epochs: int = at_least(1)
    device_batch_size: int | None = at_least(1)
    precision: str = one_of("float32", "bfloat16")
    compile: bool = plain()
    lr: float = above(0)
    lr_schedule: str = one_of("constant", "linear", "cosine")
    lr_min_ratio: float = between(0, 1)
    lr_warmup_steps: int = at_least(0)
    gamma: float = between(0, 1)
    gae_lambda: float = between(0, 1)
    clip_coef: float = above(0)
    vf_coef: float = at_least(0)
    vf_clip_coef: float | None = above(0)
    ent_coef: float = at_least(0)
    max_grad_norm: float = above(0)
    normalize_advantage: bool = plain()
    normalize_rewards: bool = plain()
    reward_clip: float | None = above(0)
    optimizer: str = one_of("muon", "adam", "adamw")
    adam_beta1: float = between(0, 1, high_open=True)
    adam_beta2: float = between(0, 1, high_open=True)
    adam_eps: float = above(0)
    weight_decay: float = at_least(0)
    muon_momentum: float = between(0, 1, high_open=True)
    vtrace_rho_clip: float | None = above(0)
    vtrace_c_clip: float | None = above(0)
    priority_alpha: float = at_least(0)
    priority_beta: float = between(0, 1)
    checkpoint_interval_s: float = at_least(0)
    keep_checkpoints: int = at_least(1)


@dataclass
class LoggerConfig:
    """Where results are shown and kept."""

    tensorboard: bool = plain()
    dashboard: str = one_of("auto", "on", "off")
    print_interval_s: float = at_least(0)


@dataclass
class EvalConfig:
    """How a checkpoint is measured."""

    episodes: int = at_least(1)
    num_envs: int = at_least(1)
    deterministic: bool = plain()
    max_steps: int = at_least(1)
    video: bool = plain()
    video_format: str = one_of("gif", "mp4")
    video_max_steps: int = at_least(1)
    confidence: float = between(0, 1, low_open=True, high_open=True)


@dataclass
class SanityConfig:
    """Which abilities of a learner are tested, and how well."""

    envs: list[str] = field(default=MISSING)
    episodes: int = at_least(100)


@dataclass
class BenchConfig:
    """How long speeds are measured."""

    repeats: int = at_least(3)
    duration_s: float = above(0)
    warmup_s: float = at_least(0)


@dataclass
class Config:
    """The whole configuration of one job.

    `env` and `policy` are free: their keys are the parameters of the class that their `_target_` names.
    """

    seed: int = at_least(0)
    device: str = plain()
    mode: str = one_of("train", "eval", "sanity", "bench", "reproduce")
    checkpoint: str | None = plain()
    resume: str | None = plain()
    run: str | None = plain()
    tag: str | None = plain()
    output_dir: str = plain()
    num_threads: int = at_least(0)
    trust: list[str] = field(default=MISSING)
    env: dict[str, Any] = field(default=MISSING)
    policy: dict[str, Any] = field(default=MISSING)
    vec: VecConfig = field(default_factory=VecConfig)
    train: TrainConfig = field(default_factory=TrainConfig)
    logger: LoggerConfig = field(default_factory=LoggerConfig)
    eval: EvalConfig = field(default_factory=EvalConfig)
    sanity: SanityConfig = field(default_factory=SanityConfig)
    bench: BenchConfig = field(default_factory=BenchConfig)


def register() -> None:
    """Make the schema known to Hydra as the config named `schema`."""
    ConfigStore.instance().store(name="schema", node=Config, provider="puffertoolkit")

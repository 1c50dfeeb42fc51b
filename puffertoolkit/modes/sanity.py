"""mode=sanity: train tiny environments that each test one ability of a learner, and say which are solved."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, cast

import hydra
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf
from rich.console import Console
from rich.table import Table

from puffertoolkit.config.schema import TrainConfig
from puffertoolkit.config.suggest import did_you_mean, nearest
from puffertoolkit.config.values import batch_faults
from puffertoolkit.errors import UserError
from puffertoolkit.logger.paths import shown_path
from puffertoolkit.modes.eval import evaluate
from puffertoolkit.modes.session import Session
from puffertoolkit.trainer.trainer import Trainer

SOLVED, NOT_SOLVED = 0, 1


@dataclass(frozen=True)
class Test:
    """What an environment tests, and between which bounds the means of its episodes must lie.

    Without bounds there is nothing to learn: what counts is the speed.
    """

    ability: str
    bounds: dict[str, tuple[float, float]] = field(default_factory=dict)

    @property
    def wanted(self) -> str:
        """The bounds in words."""
        words = []
        for name, (low, high) in self.bounds.items():
            words.append(f"{name} ≥ {low:g}")
            if high < 1:
                words.append(f"{name} ≤ {high:g}")
        return ", ".join(words) or "-"

    def passes(self, means: dict[str, float]) -> bool:
        """Do these means lie within the bounds?"""
        return all(low <= means[name] <= high for name, (low, high) in self.bounds.items())


# As the specification of each environment has it.
TESTS = {
    "bandit": Test("learn from noisy rewards", {"score": (0.95, 1)}),
    "memory": Test("remember over a delay", {"score": (0.95, 1)}),
    "password": Test("seek out a rare reward", {"score": (0.95, 1)}),
    "squared_py": Test("follow a dense reward", {"score": (0.95, 1)}),
    "stochastic": Test("hold a random policy", {"score": (0.985, 1), "action_0": (0.55, 0.70)}),
    "continuous": Test("act in continuous space", {"score": (0.90, 1)}),
    "multiagent": Test("tell the agents apart", {"score": (0.95, 1)}),
    "performance": Test("bear a busy environment"),
    "performance_empiric": Test("bear counted work"),
}


@dataclass
class Result:
    """The outcome of one environment.

    Attributes:
        solved: None where there is nothing to solve.
        problem: what ended the training before its time; "" if nothing did.
    """

    env: str
    ability: str
    wanted: str
    means: dict[str, float]
    solved: bool | None
    steps: int
    seconds: float
    sps: float
    problem: str


def run(cfg: DictConfig, run_dir: Path) -> int:
    """Run the tests that `cfg.sanity.envs` names, or all; returns 0 if all are solved, else 1."""
    names = list(cfg.sanity.envs) or list(TESTS)
    for name in names:
        if name not in TESTS:
            hint = did_you_mean(nearest(name, TESTS))
            raise UserError(f"sanity.envs names '{name}'; there are {', '.join(TESTS)}{hint or '.'}")
    jobs = _jobs(names)
    console = Console(highlight=False, soft_wrap=True)
    results = []
    for name, job in jobs.items():
        result = check(name, job)
        results.append(result)
        outcome = {True: "solved", False: "NOT solved", None: f"{result.sps:,.0f} steps/s"}[result.solved]
        console.print(f"{name:20} {outcome:12} {result.seconds:5.1f} s  {result.problem}".rstrip())
    report = run_dir / "sanity.json"
    report.write_text(json.dumps([asdict(result) for result in results], indent=2) + "\n")
    console.print(_table(results))
    console.print(f"json  {shown_path(report)}")
    return NOT_SOLVED if any(result.solved is False for result in results) else SOLVED


def _jobs(names: list[str]) -> dict[str, DictConfig]:
    """The config of each training, by the environment's name.

    Raises:
        UserError: settings of the user do not go with those of an environment; nothing was trained.
    """
    overrides = _overrides()
    jobs = {name: hydra.compose("config", overrides=[*overrides, f"env={name}"]) for name in names}
    faults = [f"with env={name}, {fault.text}" for name, job in jobs.items() for fault in batch_faults(job)]
    if faults:
        raise UserError(f"Nothing was trained: {'; '.join(faults)}.")
    return jobs


def _overrides() -> list[str]:
    """What the user changed, for every one of the trainings."""
    kept = []
    for override in HydraConfig.get().overrides.task:
        key = override.lstrip("+~").partition("=")[0]
        if key.partition(".")[0] == "env":
            raise UserError(
                f"'{override}' does not go with mode=sanity, which runs environments of its own; choose some "
                "with sanity.envs=[bandit,memory]."
            )
        if key != "mode":
            kept.append(override)
    return kept


def check(name: str, cfg: DictConfig) -> Result:
    """Train an environment as `cfg` says, and evaluate what was learned."""
    test = TESTS[name]
    begun = time.perf_counter()
    session = Session.build(cfg, cfg.vec.num_envs)
    train = cast(TrainConfig, OmegaConf.to_object(cfg.train))
    trainer = Trainer(train, session.vector, session.policy, session.seeds, session.device)
    problem = _train(trainer)
    session.vector.close()
    trained_s = trainer.clock.uptime_s
    means = _evaluate(cfg, session) if test.bounds and not problem else {}
    return Result(
        env=name,
        ability=test.ability,
        wanted=test.wanted,
        means=means,
        solved=not problem and test.passes(means) if test.bounds or problem else None,
        steps=trainer.step,
        seconds=time.perf_counter() - begun,
        sps=trainer.step / trained_s,
        problem=problem,
    )


def _train(trainer: Trainer) -> str:
    """Train to the end; returns what ended it before, if anything did: the other tests go on."""
    try:
        trainer.train(lambda row: None, lambda: None)
    except UserError as error:
        return str(error)
    return ""


def _evaluate(cfg: DictConfig, trained: Session) -> dict[str, float]:
    """Means over new episodes, with actions sampled as in training."""
    session = Session.build(cfg, min(cfg.eval.num_envs, cfg.sanity.episodes))
    session.policy.load_state_dict(trained.policy.state_dict())
    cfg.eval.episodes = cfg.sanity.episodes
    evaluation = evaluate(session, cfg.eval)
    session.vector.close()
    return {name: float(values.mean()) for name, values in evaluation.statistics.items()}


def _table(results: list[Result]) -> Table:
    # No lines between columns, and a bound per line: it fits a terminal of 80 columns.
    table = Table(
        title="Sanity of the learner",
        title_justify="left",
        title_style="bold",
        box=None,
        padding=(0, 1, 0, 0),
    )
    for column in ("environment", "wanted", "reached"):
        table.add_column(column, no_wrap=True)
    for column in ("steps", "seconds"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("solved")
    marks: dict[Any, str] = {True: "[green]yes[/]", False: "[bold red]NO[/]", None: "-"}
    for r in results:
        found = [f"{r.means[name]:.3f}" for name in TESTS[r.env].bounds if name in r.means]
        reached = "stopped" if r.problem else "\n".join(found) or f"{r.sps:,.0f} / s"
        name, wanted = f"{r.env}\n  [dim]{r.ability}[/]", r.wanted.replace(", ", "\n")
        table.add_row(name, wanted, reached, f"{r.steps:,}", f"{r.seconds:.1f}", marks[r.solved])
    return table

"""The process behind `processes.Worker`: builds a training, and trains for the seconds that each line says.

    python -m benchmarks.worker ours KEY=VALUE ...     this toolkit, as configured
    python -m benchmarks.worker sb3 '{"env": ...}'     Stable-Baselines3, see `settings.Settings`
    python -m benchmarks.worker busy                   no training: one core kept busy until the input ends

It writes a line of JSON when all is built, and one after each measurement.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TextIO, cast

from puffertoolkit.errors import UserError
from puffertoolkit.threads import share_cores

Work = Callable[[], int]


def main(arguments: Sequence[str]) -> int:
    """Serve until the input ends."""
    kind, *rest = arguments
    with _answers() as answers:
        try:
            if kind == "busy":
                return _busy(answers)
            work, facts = _ours(rest) if kind == "ours" else _sb3(rest[0])
            _serve(work, facts, answers)
        except UserError as error:
            sys.stderr.write(f"{error}\n")
            return 2
    return 0


@contextmanager
def _answers() -> Iterator[TextIO]:
    """The standard output, for answers alone: what libraries print goes to the error stream."""
    with os.fdopen(os.dup(1), "w") as answers:
        os.dup2(2, 1)
        yield answers


def _answer(answers: TextIO, value: dict[str, Any]) -> None:
    answers.write(json.dumps(value) + "\n")
    answers.flush()


def _serve(work: Work, facts: dict[str, Any], answers: TextIO) -> None:
    from puffertoolkit.trainer.trainer import peak_memory_mb

    _answer(answers, facts)
    for line in sys.stdin:
        duration_s, steps, begun = float(line), 0, time.perf_counter()
        while True:
            steps += work()
            seconds = time.perf_counter() - begun
            if seconds >= duration_s:
                break
        _answer(answers, {"steps": steps, "seconds": seconds, "memory_mb": peak_memory_mb()})


def _ours(overrides: list[str]) -> tuple[Work, dict[str, Any]]:
    share_cores()  # before Torch is imported
    from hydra import compose, initialize_config_dir
    from omegaconf import OmegaConf

    from puffertoolkit.config import schema
    from puffertoolkit.config.paths import conf_dir
    from puffertoolkit.config.schema import TrainConfig
    from puffertoolkit.modes.measure import iteration
    from puffertoolkit.modes.session import Session, policy_summary
    from puffertoolkit.trainer.trainer import Trainer

    schema.register()
    with initialize_config_dir(str(conf_dir()), version_base="1.3"):
        cfg = compose("config", overrides)
    train = cast(TrainConfig, OmegaConf.to_object(cfg.train))
    session = Session.build(cfg, cfg.vec.num_envs)
    trainer = Trainer(train, session.vector, session.policy, session.seeds, session.device)
    trainer.begin()
    return iteration(trainer), {
        "env": session.env_name,
        "num_agents": session.vector.num_agents,
        "policy": policy_summary(session),
        "parameters": session.num_parameters,
        "num_threads": session.num_threads,
        "device": session.device_name,
    }


def _sb3(settings: str) -> tuple[Work, dict[str, Any]]:
    try:
        from benchmarks import sb3
        from benchmarks.settings import Settings
    except ModuleNotFoundError as error:
        if error.name != "stable_baselines3":
            raise
        raise UserError(
            "Stable-Baselines3 is not installed; scripts/bench_train installs it, and so does "
            "pip install -e '.[bench]'."
        ) from error
    return sb3.build(Settings(**json.loads(settings)))


def _busy(answers: TextIO) -> int:
    import numpy as np

    # Another thread waits for the end, so that the loop never does.
    ended = threading.Event()

    def wait() -> None:
        sys.stdin.read()
        ended.set()

    threading.Thread(target=wait, daemon=True).start()
    numbers = np.random.default_rng(0).random(100_000)
    _answer(answers, {})
    while not ended.is_set():
        np.sort(numbers)
        sum(range(10_000))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

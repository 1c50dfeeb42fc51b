"""The text of `--help`: what can be chosen, what can be set, and how to go on."""

from __future__ import annotations

import textwrap
from argparse import Namespace
from collections.abc import Iterator
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import DictConfig, OmegaConf

from puffertoolkit import __version__
from puffertoolkit.config.compose import Composer
from puffertoolkit.config.keys import flatten

WIDTH = 80
SECTIONS = ("env", "policy", "vec", "train", "eval", "sanity", "bench", "logger")
HEAD = """\
puffertoolkit {version}: reinforcement learning, composed from YAML by Hydra.

Usage: python -m puffertoolkit [group=choice ...] [key=value ...] [options]

Examples
  python -m puffertoolkit                            train on Breakout
  python -m puffertoolkit env=pong train.lr=0.01     another env, another value
  python -m puffertoolkit -m seed=1,2,3              one run for each seed
  python -m puffertoolkit mode=eval checkpoint=outputs/train/breakout/<run>
  python -m puffertoolkit env=pong --help            the settings of Pong
"""
TAIL = """\
Options
  -m, --multirun     run a job for each combination of comma-separated values
  --cfg job          print the composed config and stop; --resolve fills it in
  --info             print where each part of the config comes from
  --config-dir DIR   take groups and choices from a folder of your own, too
  --hydra-help       all of Hydra's options, among them shell completion
  --version          print the version

Going on
  Your own environment: write its class and parameters (_target_: my_pkg.MyEnv)
  to mine/conf/env/my_env.yaml, then run it with
    --config-dir mine/conf env=my_env trust=[my_pkg]
  A network goes to mine/conf/policy, a set of changes to mine/conf/experiment.
  Every run keeps its config in .hydra in its directory.
"""


def help_text(options: Namespace, cfg: DictConfig) -> str:
    """Return the help for a command line; it shows what that command line would run.

    Args:
        options: As Hydra's own argument parser returns them.
        cfg: The config composed from them.
    """
    overrides = OverridesParser.create().parse_overrides(options.overrides)
    composer = Composer(options, overrides)
    choices = [o for o in overrides if composer.is_group(o) and not o.is_sweep_override()]
    parts = [
        HEAD.format(version=__version__),
        "\n".join(["Groups: group=choice; what is chosen now is marked *", *_groups(composer, cfg)]),
        "",
        "\n".join(_settings(cfg, composer.comments(choices))),
        "",
        TAIL,
    ]
    return "\n".join(parts)


def _groups(composer: Composer, cfg: DictConfig) -> Iterator[str]:
    chosen = cfg.hydra.runtime.choices
    for group, options in composer.groups.items():
        marked = [f"*{option}" if option == chosen.get(group) else option for option in options]
        yield _row(group, "  ".join(marked), 12)


def _settings(cfg: DictConfig, comments: dict[str, str]) -> Iterator[str]:
    leaves = {
        key: value
        for key, value in flatten(OmegaConf.to_container(cfg, resolve=False)).items()
        if not key.startswith("hydra.")
    }
    yield "Settings: key=value"
    outside = {key: value for key, value in leaves.items() if key.partition(".")[0] not in SECTIONS}
    for key, value in outside.items():
        yield _setting(key, value, comments.get(key, ""), max(map(len, outside)) + 2)
    for section in SECTIONS:
        inside = {key: value for key, value in leaves.items() if key.startswith(f"{section}.")}
        if not inside:
            continue
        choice = cfg.hydra.runtime.choices.get(section)
        yield ""
        yield f"Settings of {section}={choice}" if choice else f"Settings of {section}"
        width = max(len(key) for key in inside) + 2
        for key, value in inside.items():
            yield _setting(key, value, comments.get(key, ""), width)


def _setting(key: str, value: Any, comment: str, width: int) -> str:
    """One key, its value and its comment; a long value pushes the comment to the next line."""
    shown = "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
    column = width + 12
    if len(shown) < 12:
        return _row(key, f"{shown:<12}{comment}", width, column)
    row = _row(key, shown, width)
    return f"{row}\n{_row('', comment, column)}" if comment else row


def _row(name: str, text: str, width: int, indent: int | None = None) -> str:
    return textwrap.fill(
        text,
        WIDTH,
        initial_indent=f"  {name:<{width}}",
        subsequent_indent=" " * (2 + (width if indent is None else indent)),
        break_long_words=False,
        break_on_hyphens=False,
        drop_whitespace=True,
    )

import pytest

from puffertoolkit.config.suggest import nearest, nearest_key

KEYS = ["seed", "train.lr", "train.lr_schedule", "train.gamma", "vec.num_envs", "eval.num_envs", "train"]


@pytest.mark.parametrize(
    ("name", "names", "expected"),
    [
        ("Polcy", ["policy", "Policy"], "Policy"),
        ("BREAKOUT", ["breakout", "pong"], "breakout"),
        ("xyz", ["breakout", "pong"], None),
        ("a", [], None),
    ],
)
def test_nearest(name, names, expected):
    assert nearest(name, names) == expected


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("train.lrr", "train.lr"),
        ("lr", "train.lr"),
        ("vec.lr", "train.lr"),
        ("vec.num_env", "vec.num_envs"),
        ("eval.num_env", "eval.num_envs"),
        ("trian.gamma", "train.gamma"),
        ("sed", "seed"),
        ("trin", "train"),
        ("zzz.qqq", None),
    ],
)
def test_nearest_key(key, expected):
    assert nearest_key(key, KEYS) == expected

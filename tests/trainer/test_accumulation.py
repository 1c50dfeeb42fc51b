"""A minibatch in parts: the same update as in one piece, with no more agent steps at a time than allowed."""

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete
from test_update import learner, train_config

from puffertoolkit.policies import LSTMCore, NoCore

VARIANTS = {
    "plain": {"priority_alpha": 0.0, "vtrace_rho_clip": None, "vtrace_c_clip": None},
    "pufferl": {},
    "raw advantages": {"normalize_advantage": False},
    "clipped values": {"vf_clip_coef": 0.05},
    "entropy": {"ent_coef": 0.3},
    "two epochs": {"update_epochs": 2},
    "muon": {"optimizer": "muon"},
}
# Muon rounds to bfloat16 on its way to an orthogonal matrix, which makes much of the smallest difference.
TOLERANCE = {"muon": 0.1}
# Agents die at different times: the parts have unequal numbers of steps that count.
DEAD = {(t, n) for n, since in ((0, 1), (3, 3), (4, 0), (6, 5)) for t in range(since, 99)}


def updated(scripted, core, space, changes, device_batch_size):
    """Weights and metrics after an update of all 7 segments; and how many segments were passed at a time."""
    cfg = train_config(
        horizon=5,
        minibatch_size=35,
        device_batch_size=device_batch_size,
        **{"optimizer": "adam", "adam_eps": 1e-3, "lr": 1e-2, **changes},
    )
    vector = scripted(7, terminate={(1, 0), (2, 5)}, truncate={(3, 1)}, dead=DEAD, action_space=space)
    policy, collector, update = learner(vector, cfg, core)
    vector.observations /= 600
    batch = collector.collect()
    batch.observations /= 300
    batch.rewards /= 30
    # Another policy than the present one acted: ratios are not one, and clipping has something to clip.
    batch.logprobs += torch.linspace(-0.5, 0.5, 35).reshape(5, 7)
    batch.values += torch.linspace(0.5, -0.5, 35).reshape(5, 7)
    sizes, sequence = [], update._sequence
    update._sequence = lambda obs, *rest: sizes.append(obs.shape[1]) or sequence(obs, *rest)
    row = update.update(batch, 0.3)
    return torch.cat([p.detach().flatten() for p in policy.parameters()]), row, sizes


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("core", [NoCore, LSTMCore])
@pytest.mark.parametrize("size", [5, 15, 33])
def test_equals_one_large_batch(scripted, variant, core, size):
    whole, row, sizes = updated(scripted, core, Discrete(3), VARIANTS[variant], None)
    assert set(sizes) == {7}
    parts, row_of_parts, sizes = updated(scripted, core, Discrete(3), VARIANTS[variant], size)
    assert max(sizes) == size // 5
    start, _, _ = updated(scripted, core, Discrete(3), {**VARIANTS[variant], "lr": 1e-30}, None)
    # The largest difference, beside the length of the step that was made.
    allowed = TOLERANCE.get(variant, 1e-3) * (whole - start).abs().max()
    assert (parts - whole).abs().max() < allowed
    for name, value in row.items():
        torch.testing.assert_close(
            row_of_parts[name], value, rtol=1e-3, atol=1e-5, msg=lambda m, n=name: f"{n} {m}"
        )


def test_equals_one_large_batch_of_continuous_actions(scripted):
    space = Box(np.float32([-1, -2]), np.float32([1, 2]))
    whole, _, _ = updated(scripted, LSTMCore, space, {}, None)
    parts, _, _ = updated(scripted, LSTMCore, space, {}, 10)
    torch.testing.assert_close(parts, whole, rtol=1e-4, atol=1e-6)


def test_the_default_is_one_pass_per_minibatch(scripted):
    """Live ratios come from the pass that is descended: no second look at the data."""
    _, _, sizes = updated(scripted, NoCore, Discrete(3), {}, None)
    assert sizes == [7]
    _, _, sizes = updated(scripted, NoCore, Discrete(3), {}, 35)
    assert sizes == [7]

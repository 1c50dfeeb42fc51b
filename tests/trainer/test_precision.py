"""bfloat16 products and compiled networks: the same training, nearly; and a clear word where it cannot be."""

import shutil

import pytest
import torch
from gymnasium.spaces import Box, Discrete
from test_update import train_config

from puffertoolkit.errors import UserError
from puffertoolkit.policies import LSTMCore, MLPEncoder, NoCore, Policy
from puffertoolkit.trainer.optim import Optimizer
from puffertoolkit.trainer.precision import compiled, require_precision
from puffertoolkit.trainer.rollout import Collector
from puffertoolkit.trainer.update import Learner

CPU = torch.device("cpu")


def trained(scripted, core, space, **changes):
    """Weights after one rollout and update, its metrics, the rollout, and the policy."""
    cfg = train_config(
        "ppo",
        **{"horizon": 4, "minibatch_size": 24, "lr": 1e-2, "adam_eps": 1e-3, "update_epochs": 1, **changes},
    )
    vector = scripted(6, terminate={(1, 0)}, truncate={(2, 3)}, action_space=space)
    torch.manual_seed(0)
    policy = Policy(vector.single_observation_space, vector.single_action_space, 32, MLPEncoder, core)
    vector.observations /= 100
    batch = Collector(vector, policy, 4, CPU, cfg.precision).collect()
    batch.rewards /= 40
    update = Learner(policy, Optimizer(policy.parameters(), cfg), cfg, torch.Generator().manual_seed(0))
    row = update.update(batch, 0.0)
    return torch.cat([parameter.detach().flatten() for parameter in policy.parameters()]), row, batch, update


@pytest.mark.parametrize("core", [NoCore, LSTMCore])
@pytest.mark.parametrize("space", [Discrete(3), Box(-1, 1, (2,))])
def test_bfloat16_is_near_float32(scripted, core, space):
    exact, row, _, _ = trained(scripted, core, space)
    rounded, row_rounded, batch, _ = trained(scripted, core, space, precision="bfloat16")
    assert not torch.equal(exact, rounded)
    start, *_ = trained(scripted, core, space, lr=1e-30)
    assert (exact - rounded).norm() < 0.5 * (exact - start).norm()
    assert row_rounded["loss/value"] == pytest.approx(row["loss/value"].item(), rel=0.05)
    # Rollout and update round alike: the ratio is still one before the first step.
    assert abs(row_rounded["train/approx_kl"]) < 1e-5
    assert {batch.logprobs.dtype, batch.values.dtype, row_rounded["loss/policy"].dtype} == {torch.float32}


def test_bfloat16_rounds_the_products_and_not_the_weights_or_the_loss(scripted):
    kinds = set()
    _, _, batch, update = trained(scripted, NoCore, Discrete(3), precision="bfloat16")
    update.policy.encoder.register_forward_hook(lambda module, given, out: kinds.add(out.dtype))
    dist, values, log_ratios = update._forward(batch)
    assert kinds == {torch.bfloat16}
    assert {dist.logits.dtype, values.dtype, log_ratios.dtype} == {torch.float32}
    assert {parameter.dtype for parameter in update.policy.parameters()} == {torch.float32}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # Torch uses what it deprecates
@pytest.mark.filterwarnings("ignore::UserWarning")  # and warns of what it looks past, as NumPy views
@pytest.mark.parametrize("core", [NoCore, LSTMCore])
@pytest.mark.skipif(shutil.which("c++") is None, reason="torch.compile needs a C++ compiler on a CPU")
def test_a_compiled_network_makes_the_same_update(scripted, core):
    plain, row, _, _ = trained(scripted, core, Discrete(3))
    fast, row_fast, batch, update = trained(scripted, core, Discrete(3), compile=True)
    torch.testing.assert_close(fast, plain, rtol=1e-3, atol=1e-5)
    torch.testing.assert_close(row_fast["loss/value"], row["loss/value"], rtol=1e-4, atol=1e-6)
    before = {name: weight.clone() for name, weight in update.policy.state_dict().items()}
    assert update.warm_up(batch) > 0
    assert all(torch.equal(weight, before[name]) for name, weight in update.policy.state_dict().items())
    assert all(parameter.grad is None for parameter in update.policy.parameters())


def test_without_a_compiler_the_user_is_told(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(UserError, match=r"train.compile=true needs a C\+\+ compiler .* train.compile=false"):
        compiled(lambda: None)


def test_a_gpu_without_bfloat16_is_told(monkeypatch):
    for supported in (True, False):
        monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation=True, s=supported: s)
        require_precision("float32", torch.device("cuda:1"))
        if supported:
            require_precision("bfloat16", torch.device("cuda:1"))
        else:
            with pytest.raises(
                UserError, match=r"train.precision=bfloat16 is not to be had on cuda:1; .*float32"
            ):
                require_precision("bfloat16", torch.device("cuda:1"))

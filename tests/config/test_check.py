import subprocess
import sys

import pytest

FAULTS = [
    ("train.lrr=1", "no key 'train.lrr'; did you mean 'train.lr'?"),
    ("lr=1", "no key 'lr'; did you mean 'train.lr'?"),
    ("train.horizn=1", "no key 'train.horizn'; did you mean 'train.horizon'?"),
    ("train={horizn: 3}", "no key 'train.horizn'; did you mean 'train.horizon'?"),
    ("sed=1", "no key 'sed'; did you mean 'seed'?"),
    ("seed.x=1", "no key 'seed.x'; did you mean 'seed'?"),
    ("envv=pong", "no key 'envv'; did you mean 'env'?"),
    ("+train.lrr=1", "no key 'train.lrr'; did you mean 'train.lr'? ('+' adds to env and policy only)"),
    ("+note=1", "no key 'note' ('+' adds to env and policy only)"),
    ("hydra.rn.dir=x", "no key 'hydra.rn.dir'; did you mean 'hydra.run.dir'?"),
    ("env=brekout", "no env 'brekout'; did you mean 'breakout'?"),
    ("policy=lstmm", "no policy 'lstmm'; did you mean 'lstm'? (there is: lstm, mlp)"),
    ("mode=evla", "no mode 'evla'; did you mean 'eval'?"),
    ("experiment=null", "experiment=null chooses nothing"),
    ("train=5", "no train '5' (there is: ppo, pufferl)"),
    ("env.fraemskip=2", "no key 'env.fraemskip'; did you mean 'env.frameskip'?"),
    (
        "+env.fraemskip=2",
        "no key 'env.fraemskip': Breakout has no such parameter; did you mean 'env.frameskip'?",
    ),
    ("policy.hiden_size=2", "no key 'policy.hiden_size'; did you mean 'policy.hidden_size'?"),
    ("policy.encoder.dept=2", "no key 'policy.encoder.dept'; did you mean 'policy.encoder.depth'?"),
    ("+policy.core.layers=2", "no key 'policy.core.layers': NoCore has no such parameter"),
    ("env.num_envs=2", "'env.num_envs' cannot be set: it comes from vec.num_envs"),
    ("+env.num_envs=2", "'env.num_envs' cannot be set: it comes from vec.num_envs"),
    ("+policy.core.input_size=2", "'policy.core.input_size' cannot be set: it comes from the part before it"),
    ("+policy.action_space=2", "'policy.action_space' cannot be set: it comes from the environment"),
    ("seed=abc", "seed is 'abc'; it must be a whole number of at least 0"),
    ("seed=1.5", "seed is 1.5; it must be a whole number of at least 0"),
    ("train.total_timesteps=1e7", "it must be a whole number of at least 1; write 10000000"),
    ("train.normalize_advantage=maybe", "train.normalize_advantage is 'maybe'; it must be true or false"),
    ("train.lr=null", "train.lr is null; it must be a number above 0"),
    ("trust=my_pkg", "trust is 'my_pkg'; it must be a list of words"),
    ("policy.hidden_size=abc", "policy.hidden_size is 'abc'; Policy takes a whole number"),
    ("policy.encoder.activation=3", "policy.encoder.activation is 3; MLPEncoder takes text"),
    ("train.lr=-1", "train.lr is -1.0; it must be a number above 0"),
    ("train.lr=nan", "train.lr is nan; it must be a number above 0"),
    ("train.gamma=1.1", "train.gamma is 1.1; it must be a number in [0, 1]"),
    ("train.adam_beta1=1", "train.adam_beta1 is 1.0; it must be a number in [0, 1)"),
    ("train.vf_clip_coef=0", "train.vf_clip_coef is 0.0; it must be a number above 0, or null"),
    ("vec.num_envs=0", "vec.num_envs is 0; it must be a whole number of at least 1"),
    ("train.optimizer=muonn", "it must be one of muon, adam, adamw; did you mean 'muon'?"),
    ("env.frameskip=0", "frameskip=0 is not valid: it takes an integer from 1 to 16"),
    ("env.frameskip=abc", "frameskip='abc' is not valid"),
    ("device=gpu", "device is 'gpu'; it must be auto, cpu, cuda, cuda:N or mps; did you mean 'cuda'?"),
    ("device=cuda:99", "device is 'cuda:99', but Torch finds"),
    (
        "output_dir=/dev/null/x",
        "output_dir is '/dev/null/x', but '/dev/null' is not a folder; choose another",
    ),
    ("hydra.run.dir=/dev/null/x", "hydra.run.dir is '/dev/null/x', but '/dev/null' is not a folder"),
    ("~train.lr", "train.lr is null; it must be a number above 0"),
    ("~device", "device has no value"),
    ("~policy", "policy has no value"),
    ("train.lr=${train.lrr}", "train.lr is '${train.lrr}', which cannot be resolved"),
    ("seed=1,2", "'seed=1,2' has several values: add -m to run a job for each"),
    ("train", "'train' cannot be read (it has no '=')"),
    ("train.lr=[1", "'train.lr=[1' cannot be read"),
    ("env._target_=os.system", "If you trust os, add trust=[os]"),
    ("policy.core._target_=os.system", "_target_ 'os.system' is outside the packages"),
    (
        "env._target_=ocean_numba.Braekout",
        "ocean_numba has no 'Braekout'; did you mean 'ocean_numba.Breakout'?",
    ),
    ("hydra.searchpath=[file:///nowhere]", "the config folder '/nowhere'"),
    ("mode=eval", "mode=eval needs a checkpoint: add checkpoint=<run directory>"),
]


@pytest.mark.parametrize(("override", "message"), FAULTS, ids=[override for override, _ in FAULTS])
def test_one_mistake_is_one_fault(override, message, faults):
    found = faults(override)
    assert len(found) == 1
    assert message in found[0]


def test_a_sound_command_line_has_no_faults(faults):
    assert (
        faults("env=pong", "train.lr=0.01", "seed=7", "tag=x", "vec.num_envs=512", "policy.hidden_size=32")
        == []
    )


def test_all_mistakes_are_reported_together(faults):
    # Of these kinds each stops Hydra's own composition, and hides the ones after it.
    together = [
        "env=brekout",
        "train.lrr=1",
        "seed=abc",
        "train.lr=-1",
        "device=gpu",
        "train.gamma=[1",
        "policy.core._target_=os.system",
        "output_dir=/dev/null/x",
    ]
    alone = [fault for override in together for fault in faults(override)]
    assert sorted(faults(*together)) == sorted(alone)
    assert len(alone) == len(together)


@pytest.mark.parametrize("key", ["minibatch_size", "device_batch_size"])
def test_a_minibatch_must_hold_whole_segments(key, faults):
    [fault] = faults("train.horizon=64", f"train.{key}=1000")
    assert f"train.{key} is 1000; it must be a multiple of train.horizon=64" in fault
    assert "the nearest: 960 or 1024" in fault
    assert faults("train.horizon=64", f"train.{key}=1024") == []
    [fault] = faults("train.horizon=64", f"train.{key}=10")
    assert fault.endswith("the nearest: 64")


def test_a_parameter_outside_the_yaml_is_added_with_a_plus(faults, conf, package):
    package("plus_env", "class Plus:\n    def __init__(self, num_envs: int, extra: int = 3): ...\n")
    arguments = [
        "--config-dir",
        conf({"env/plus": "_target_: plus_env.Plus\n"}),
        "env=plus",
        "trust=[plus_env]",
    ]
    assert faults(*arguments, "env.extra=2") == ["no key 'env.extra' in the YAML; add it with +env.extra=2"]
    assert faults(*arguments, "+env.extra=2") == []


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["env=squared,cartpole", "seed=1,2"], []),
        (["env=squared,cartpoel"], ["no env 'cartpoel'; did you mean 'cartpole'?"]),
        (["train.lr=0.1,-1"], ["train.lr is -1.0"]),
        (["train.lr=choice(0.1,-1)"], ["train.lr is -1.0"]),
        (["train.lr=interval(-1,1)"], ["train.lr is -1.0"]),
        (["seed=range(-1,3)"], ["seed is -1"]),
        (["seed=range(0,100)", "train.lr=0.1,-1"], ["train.lr is -1.0"]),
        (["env=squared,cartpole", "env.size=5"], ["no key 'env.size' (with env=cartpole)"]),
        (["env=glob(ca*)", "env.size=5"], ["no key 'env.size'"]),
        (["train.horizon=64,60", "train.minibatch_size=640"], ["a multiple of train.horizon=60"]),
    ],
)
def test_every_value_of_a_sweep_is_checked(arguments, expected, faults):
    found = faults("-m", *arguments)
    assert len(found) == len(expected)
    assert all(message in fault for message, fault in zip(expected, found, strict=True))


def test_a_fault_costs_no_heavy_import():
    code = """
import sys, puffertoolkit.cli
status = puffertoolkit.cli.main(["train.lrr=1", "policy.hiden_size=2", "env=pong", "policy.hidden_size=64"])
assert status == 2, status
heavy = {"torch", "numba", "tensorboard", "optuna"} & set(sys.modules)
assert not heavy, heavy
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr

"""What a training says that it takes, against what it takes, and its refusal of what cannot fit."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from gymnasium.spaces import Box, Discrete, MultiDiscrete
from test_update import train_config

from puffertoolkit.errors import UserError
from puffertoolkit.policies import LSTMCore, MLPEncoder, NoCore, Policy
from puffertoolkit.trainer import memory
from puffertoolkit.trainer.memory import Memory, available_memory, needed_memory, require_memory
from puffertoolkit.trainer.rollout import Collector

CPU = torch.device("cpu")

MEASURE = """
import json, sys
import numpy as np, torch
from gymnasium.spaces import Box, Discrete
from puffertoolkit.policies import LSTMCore, MLPEncoder, NoCore, Policy
from puffertoolkit.seeding import SeedTree
from puffertoolkit.trainer.memory import needed_memory
from puffertoolkit.trainer.trainer import Trainer
from puffertoolkit.vector import Vector
sys.path.insert(0, sys.argv[1])
from test_update import train_config

class Still(Vector):
    def __init__(self, num_agents):
        self.allocate_buffers(num_agents, Box(-1, 1, (100,)), Discrete(3))
    reset = step = render = lambda self, *_: None
    close = lambda self: None
    drain_rows = lambda self: (np.zeros(self.num_agents), {})

def status(name):
    rows = dict(line.split(":", 1) for line in open("/proc/self/status"))
    return int(rows[name].split()[0]) * 1024

core = {"none": NoCore, "lstm": LSTMCore}[sys.argv[2]]
minibatch, part = int(sys.argv[3]), int(sys.argv[4]) or None
torch.set_num_threads(1)
# The small one first: what Torch and Numba load at their first use is none of the training's.
for agents in (2, 1024):
    vector = Still(agents)
    size = min(minibatch, agents * 64)
    cfg = train_config(
        horizon=64, minibatch_size=size, device_batch_size=part and min(part, size), total_timesteps=1
    )
    policy = Policy(vector.single_observation_space, vector.single_action_space, 128, MLPEncoder, core)
    needed = needed_memory(cfg, vector, policy).total
    before = status("VmRSS")
    open("/proc/self/clear_refs", "w").write("5")  # from now on VmHWM is the highest since
    Trainer(cfg, vector, policy, SeedTree(0), torch.device("cpu")).train(lambda row: None, lambda: None)
print(json.dumps([needed, status("VmHWM") - before]))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the peak of a part of a process is known on Linux only")
@pytest.mark.parametrize(
    ("core", "minibatch", "part"),
    [("none", 32768, 0), ("none", 8192, 0), ("lstm", 32768, 0), ("lstm", 32768, 4096)],
)
def test_the_estimate_is_near_the_real_peak(core, minibatch, part):
    arguments = [str(Path(__file__).parent), core, str(minibatch), str(part)]
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, *arguments], capture_output=True, text=True, check=True, timeout=120
    )
    needed, real = json.loads(done.stdout.splitlines()[-1])
    assert 0.7 < needed / real < 1.5, f"estimated {needed / 1e6:.0f} MB, took {real / 1e6:.0f} MB"


def memory_of(scripted, changes=None, num_agents=8, core=NoCore, space=None):
    vector = scripted(num_agents, action_space=space)
    policy = Policy(vector.single_observation_space, vector.single_action_space, 16, MLPEncoder, core)
    cfg = train_config(**{"horizon": 16, "minibatch_size": 64, **(changes or {})})
    return needed_memory(cfg, vector, policy), Collector(vector, policy, 16, CPU).experience


@pytest.mark.parametrize("space", [Discrete(3), MultiDiscrete([2, 5]), Box(-1, 1, (3,))])
@pytest.mark.parametrize("core", [NoCore, LSTMCore])
def test_the_buffer_is_counted_to_the_byte(scripted, core, space):
    needed, buffer = memory_of(scripted, core=core, space=space)
    tensors = [t for part in vars(buffer).values() for t in (part if isinstance(part, tuple) else [part])]
    held = sum(tensor.numel() * tensor.element_size() for tensor in tensors)
    assert needed.experience - held == 4 * memory.FLOATS_PER_STEP * 16 * 8
    assert needed.minibatch == held * 4 // 8


def test_grows_with_what_it_depends_on(scripted):
    small, _ = memory_of(scripted)
    more_agents, _ = memory_of(scripted, num_agents=16)
    assert more_agents.experience == 2 * small.experience
    assert more_agents.network == small.network
    larger, _ = memory_of(scripted, {"minibatch_size": 128})
    assert (larger.network, larger.minibatch) == (2 * small.network, 2 * small.minibatch)
    in_parts, _ = memory_of(scripted, {"minibatch_size": 128, "device_batch_size": 32})
    assert in_parts.network == larger.network // 4


def test_the_probe_leaves_policy_and_chance_alone(scripted):
    torch.manual_seed(3)
    before = torch.get_rng_state()
    vector = scripted(4)
    policy = Policy(vector.single_observation_space, vector.single_action_space, 16, MLPEncoder, LSTMCore)
    weights = {name: tensor.clone() for name, tensor in policy.state_dict().items()}
    torch.set_rng_state(before)
    needed_memory(train_config(horizon=16, minibatch_size=64), vector, policy)
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(tensor, weights[name]) for name, tensor in policy.state_dict().items())
    assert all(parameter.grad is None for parameter in policy.parameters())


@pytest.mark.parametrize(
    ("needed", "first"),
    [
        (Memory(5, 10**15, 10, 0), "train.minibatch_size"),
        (Memory(10**15, 5, 5, 0), "vec.num_envs or train.horizon"),
        (Memory(5, 0, 10**15, 0), "train.device_batch_size"),
    ],
)
def test_what_cannot_fit_is_refused_with_what_to_lower(needed, first):
    with pytest.raises(UserError, match=r"will take about 1e\+06 GB: .* cpu has .* to give") as told:
        require_memory(needed, CPU)
    assert f"Lower {first}," in str(told.value)


def test_what_fits_is_not_refused():
    require_memory(Memory(10, 10, 10, 10), CPU)


def test_memory_of_this_machine():
    available = available_memory(CPU)
    assert available is not None
    assert 10**7 < available < 10**14


V2 = ("memory.max", "memory.current", "inactive_file")
V1 = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")


@pytest.mark.parametrize(
    ("line", "base", "names"), [("0::/a/b", "", V2), ("4:cpu,memory:/a/b", "memory", V1)]
)
def test_control_groups_of_a_container(tmp_path, line, base, names):
    limit, usage, cache = names
    own = tmp_path / "cgroup"
    own.write_text(line + "\n")
    for path, allowed in (("a/b", "max" if base == "" else str(2**63 - 4096)), ("a", "1000"), ("", "5000")):
        group = tmp_path / base / path
        group.mkdir(parents=True, exist_ok=True)
        (group / limit).write_text(f"{allowed}\n")
        (group / usage).write_text("900\n")
        (group / "memory.stat").write_text(f"anon 700\n{cache} 200\n")
    assert list(memory._free_of_groups(tmp_path, own)) == [1000 - 900 + 200, 5000 - 900 + 200]


def test_no_control_groups(tmp_path):
    assert list(memory._free_of_groups(tmp_path, tmp_path / "none")) == []

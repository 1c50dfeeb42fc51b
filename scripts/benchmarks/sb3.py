"""Stable-Baselines3's PPO with the network and the batches of ours, on the same environments."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt
import torch
from gymnasium import spaces
from stable_baselines3 import PPO
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv
from torch import Tensor, nn

from benchmarks.settings import Settings
from ocean_numba import Breakout
from puffertoolkit.threads import set_threads, settle_threads

NEVER = sys.maxsize


class OceanVecEnv(VecEnv):
    """A vector of `ocean_numba` as Stable-Baselines3 takes it: buffers copied, a dict per environment."""

    def __init__(self, env: Any) -> None:
        self.env = env  # first: the base class asks it for attributes
        super().__init__(env.num_agents, env.single_observation_space, env.single_action_space)
        self._actions: npt.NDArray[Any] = np.zeros(env.num_agents, np.int64)

    def reset(self) -> Any:
        """Begin new episodes everywhere."""
        self.env.reset(0)
        return self.env.observations.copy()

    def step_async(self, actions: npt.NDArray[Any]) -> None:
        """Keep the actions for `step_wait`."""
        self._actions = actions

    def step_wait(self) -> Any:
        """Step; what it returns is never written to again."""
        env = self.env
        env.step(self._actions)
        ends = env.terminations | env.truncations
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        for row in np.flatnonzero(ends):
            infos[row]["terminal_observation"] = env.final_observations[row].copy()
            infos[row]["TimeLimit.truncated"] = bool(env.truncations[row])
        return env.observations.copy(), env.rewards.copy(), ends, infos

    def close(self) -> None:
        """Close the environment."""
        self.env.close()

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """The attribute, the same of every environment."""
        return [getattr(self.env, attr_name, None) for _ in self._get_indices(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """Not possible: all environments are one object."""
        raise NotImplementedError(f"{attr_name} cannot be set on some of the environments")

    def env_method(self, method_name: str, *args: Any, indices: Any = None, **kwargs: Any) -> list[Any]:
        """Not possible: all environments are one object."""
        raise NotImplementedError(f"{method_name} cannot be called on some of the environments")

    def env_is_wrapped(
        self, wrapper_class: type[gymnasium.Wrapper[Any, Any, Any, Any]], indices: Any = None
    ) -> list[bool]:
        """None is."""
        return [False for _ in self._get_indices(indices)]


class Trunk(BaseFeaturesExtractor):
    """The layers before the heads, shared by policy and value as in ours."""

    def __init__(self, observation_space: spaces.Box, hidden_size: int, depth: int) -> None:
        super().__init__(observation_space, hidden_size)
        sizes = [int(np.prod(observation_space.shape)), *[hidden_size] * depth]
        layers: Iterable[nn.Module] = (
            module
            for before, after in pairwise(sizes)
            for module in (nn.Linear(before, after), nn.ReLU(inplace=True))
        )
        self.layers = nn.Sequential(nn.Flatten(), *layers)

    def forward(self, observations: Tensor) -> Tensor:
        """(batch, *obs) -> (batch, hidden_size)."""
        out: Tensor = self.layers(observations)
        return out


def build(settings: Settings) -> tuple[Callable[[], int], dict[str, Any]]:
    """One iteration of PPO, to be repeated at will, and what it is made of."""
    threads = set_threads(settings.threads)
    env = make_env(settings, threads)
    settle_threads(threads)
    model = PPO(
        "MlpPolicy",
        env,
        n_steps=settings.horizon,
        batch_size=settings.minibatch_size,
        n_epochs=settings.update_epochs,
        device="cpu",
        seed=0,
        policy_kwargs={
            "features_extractor_class": Trunk,
            "features_extractor_kwargs": {"hidden_size": settings.hidden_size, "depth": settings.depth},
            "net_arch": [],
        },
    )
    batch = settings.num_envs * settings.horizon

    def iterate() -> int:
        # As many steps as one rollout has: one rollout and one update, and the environments go on.
        model.learn(batch, log_interval=NEVER, reset_num_timesteps=False)
        return batch

    return iterate, {
        "env": settings.env,
        "num_agents": settings.num_envs,
        "policy": type(model.policy).__name__,
        "parameters": sum(p.numel() for p in model.policy.parameters()),
        "num_threads": torch.get_num_threads(),
        "device": "cpu",
    }


def make_env(settings: Settings, threads: int) -> VecEnv:
    """The environment in the fastest form that Stable-Baselines3 can use."""
    if settings.env == "breakout":
        return OceanVecEnv(Breakout(num_envs=settings.num_envs, num_threads=threads))
    return DummyVecEnv([lambda: gymnasium.make(settings.env)] * settings.num_envs)

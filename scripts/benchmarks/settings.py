"""What two trainings that are set side by side have in common."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

CONF = Path(__file__).parent / "conf"


@dataclass(frozen=True)
class Settings:
    """What both trainings have in common.

    Attributes:
        env: breakout, ours behind a VecEnv, or a name of Gymnasium's, in a DummyVecEnv.
        num_envs: copies of it.
        horizon: steps per segment.
        minibatch_size: agent steps per gradient step.
        update_epochs: passes over each batch.
        hidden_size: width of every layer of the network.
        depth: layers before the heads.
        threads: CPU threads; 0 = all cores.
    """

    env: str
    num_envs: int
    horizon: int
    minibatch_size: int
    update_epochs: int
    hidden_size: int = 128
    depth: int = 2
    threads: int = 0

    def overrides(self) -> list[str]:
        """The same for this toolkit, with Adam and every number that Stable-Baselines3 has by default."""
        return [
            "experiment=ppo",
            f"vec.num_envs={self.num_envs}",
            f"num_threads={self.threads}",
            "device=cpu",
            f"policy.hidden_size={self.hidden_size}",
            f"policy.encoder.depth={self.depth}",
            f"train.horizon={self.horizon}",
            f"train.minibatch_size={self.minibatch_size}",
            f"train.update_epochs={self.update_epochs}",
            "train.lr=3e-4",
            "train.lr_schedule=constant",
            "train.gamma=0.99",
            "train.gae_lambda=0.95",
            "train.ent_coef=0",
            "train.vf_coef=0.5",
            "train.vf_clip_coef=null",
            "train.max_grad_norm=0.5",
            "train.normalize_rewards=false",
        ]


CASES = {
    "breakout": Settings("breakout", 1024, 64, 32768, 1),
    "cartpole": Settings("CartPole-v1", 64, 128, 2048, 4),
}
"""By the name that --env takes."""
OURS = {
    "breakout": ["env=breakout"],
    "CartPole-v1": [f"hydra.searchpath=[file://{CONF}]", "env=gymnasium_cartpole", "trust=[gymnasium]"],
}
"""The same environments in this toolkit."""

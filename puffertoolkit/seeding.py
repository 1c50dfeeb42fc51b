"""One seed, and from it an independent stream of random numbers for each use.

Each stream is derived from the seed and the stream's *name*, so adding one later changes no other.
"""

from __future__ import annotations

import hashlib

import numpy as np

from puffertoolkit.errors import UserError


class SeedTree:
    """The seeds of one run, by name.

    Every stream is an integer in [0, 2**63). Those for training are even and those for evaluation are odd,
    so that no evaluation, of this run or of another, can replay what a policy was trained on.

    Args:
        seed: The run's seed, 0 or larger.

    Raises:
        UserError: The seed is negative or not an integer.
    """

    def __init__(self, seed: int) -> None:
        if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0:
            raise UserError(f"The seed must be a whole number, 0 or larger, and it is {seed!r}; try seed=0.")
        self.seed = int(seed)

    @property
    def envs(self) -> int:
        """For the vector of training environments."""
        return self._stream("envs", 0)

    @property
    def policy_init(self) -> int:
        """For the policy's first weights."""
        return self._stream("policy_init", 0)

    @property
    def policy_sampling(self) -> int:
        """For the actions drawn in rollouts."""
        return self._stream("policy_sampling", 0)

    @property
    def shuffle(self) -> int:
        """For the order and choice of minibatches."""
        return self._stream("shuffle", 0)

    def resumed_envs(self, epoch: int) -> int:
        """For environments that begin anew after `epoch` iterations, as their state could not be saved."""
        return self._stream(f"envs after {epoch}", 0)

    @property
    def evaluation(self) -> int:
        """For the vector of environments of an evaluation."""
        return self._stream("evaluation", 1)

    @property
    def evaluation_sampling(self) -> int:
        """For the actions drawn in an evaluation, where it is not deterministic."""
        return self._stream("evaluation_sampling", 1)

    def as_dict(self) -> dict[str, int]:
        """The seed and every stream, for the record of the run."""
        return {
            "seed": self.seed,
            "envs": self.envs,
            "policy_init": self.policy_init,
            "policy_sampling": self.policy_sampling,
            "shuffle": self.shuffle,
            "evaluation": self.evaluation,
            "evaluation_sampling": self.evaluation_sampling,
        }

    def _stream(self, name: str, parity: int) -> int:
        # SeedSequence wants small integers as the path of a child: the name's hash stands for the name.
        digest = hashlib.sha256(name.encode()).digest()
        spawn_key = tuple(int.from_bytes(digest[i : i + 4], "little") for i in range(0, 16, 4))
        state = np.random.SeedSequence(self.seed, spawn_key=spawn_key).generate_state(1, np.uint64)
        return (int(state[0]) >> 2) << 1 | parity

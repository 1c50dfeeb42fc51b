"""What a rollout keeps, and what it bootstraps from, against sums done by hand."""

import math

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box

from puffertoolkit.policies import MLPEncoder, NoCore, Policy
from puffertoolkit.trainer.rollout import Collector, to_environment

CPU = torch.device("cpu")


def test_keeps_what_was_observed_and_done(scripted, accumulator):
    vector = scripted(2)
    experience = Collector(vector, accumulator(), 3, CPU).collect()
    assert experience.observations[..., 0].tolist() == [[0, 100], [1, 101], [2, 102]]
    assert experience.rewards.tolist() == [[0, 10], [1, 11], [2, 12]]
    assert np.array_equal(experience.actions.numpy(), np.stack(vector.actions))
    assert experience.starts.tolist() == [[True, True], [False, False], [False, False]]
    torch.testing.assert_close(experience.logprobs, torch.full((3, 2), -np.log(3.0), dtype=torch.float32))


def test_values_after_each_step(scripted, accumulator):
    # Agent 0 is truncated by step 1, agent 1 terminates at step 1; the horizon is 3.
    vector = scripted(2, truncate={(1, 0)}, terminate={(1, 1)})
    experience = Collector(vector, accumulator(), 3, CPU).collect()
    assert experience.values.tolist() == [[0, 100], [0 + 1, 100 + 101], [2, 102]]
    wanted = [
        [0 + 1, 100 + 101],  # the next step's value
        [
            0 + 1 - 2,
            0,
        ],  # final observation -(0 + 1 + 1) seen with the old memory; nothing after a termination
        [2 + 3, 102 + 103],  # the value of the observation that follows the segment
    ]
    assert experience.next_values.tolist() == wanted
    assert experience.ends.tolist() == [[False, False], [True, True], [False, False]]
    assert experience.starts.tolist() == [[True, True], [False, False], [True, True]]


def test_end_at_the_last_step_of_a_segment(scripted, accumulator):
    vector = scripted(2, truncate={(1, 0)}, terminate={(1, 1)})
    collector = Collector(vector, accumulator(), 2, CPU)
    first = collector.collect()
    assert first.next_values[-1].tolist() == [0 + 1 - 2, 0]
    second = collector.collect()
    assert second.starts.tolist() == [[True, True], [False, False]]
    assert second.values.tolist() == [[2, 102], [2 + 3, 102 + 103]]


def test_memory_and_first_state_carry_over(scripted, accumulator):
    collector = Collector(scripted(1), accumulator(), 2, CPU)
    assert collector.collect().initial_state[0].tolist() == [0]
    second = collector.collect()
    assert second.initial_state[0].tolist() == [0 + 1]
    assert second.values[:, 0].tolist() == [0 + 1 + 2, 0 + 1 + 2 + 3]


def test_masks_are_those_of_the_observation_acted_on(scripted, accumulator):
    experience = Collector(scripted(2, dead={(1, 0), (2, 0)}), accumulator(), 3, CPU).collect()
    assert experience.masks.tolist() == [[True, True], [False, True], [False, True]]


LOW, HIGH = np.float32([-1, 0, -np.inf, 3]), np.float32([1, 2, np.inf, np.inf])


def test_box_actions_are_clipped_for_the_environment_only():
    sampled = torch.tensor([[-3.0, 0.5, -80, 2], [0.25, 7.0, 80, 4]])
    assert to_environment(sampled, Box(LOW, HIGH)).tolist() == [[-1, 0.5, -80, 3], [0.25, 2, 80, 4]]
    assert sampled.tolist() == [[-3.0, 0.5, -80, 2], [0.25, 7.0, 80, 4]]


def test_box_actions_are_squashed_where_both_bounds_are_finite():
    sampled = torch.tensor([[-3.0, 0.5, -80, 2], [0.0, -99.0, 80, 4]])
    got = to_environment(sampled, Box(LOW, HIGH), "tanh")
    squashed = [[math.tanh(-3), 1 + math.tanh(0.5), -80, 3], [0, 0, 80, 4]]
    np.testing.assert_allclose(got, squashed, rtol=1e-6)
    assert got.dtype == np.float32
    assert sampled[0].tolist() == [-3.0, 0.5, -80, 2]


@pytest.mark.parametrize("bounds", ["clip", "tanh"])
def test_what_is_stored_and_scored_is_what_was_sampled(scripted, bounds):
    space = Box(np.float32([-0.1, 2.0]), np.float32([0.1, 3.0]))
    vector = scripted(50, action_space=space)
    policy = Policy(vector.single_observation_space, space, 8, MLPEncoder, NoCore, action_bounds=bounds)
    experience = Collector(vector, policy, 4, CPU).collect()
    stored, sent = experience.actions.numpy(), np.stack(vector.actions)
    assert ((stored < space.low) | (stored > space.high)).any(-1).mean() > 0.5
    assert ((sent >= space.low) & (sent <= space.high)).all()
    middle, half = (space.low + space.high) / 2, (space.high - space.low) / 2
    wanted = middle + half * np.tanh(stored) if bounds == "tanh" else stored.clip(space.low, space.high)
    np.testing.assert_allclose(sent, wanted, rtol=1e-5, atol=1e-6)
    # The density of a normal distribution at what is stored, in NumPy.
    with torch.no_grad():
        mean = policy.sequence(experience.observations, (), experience.starts)[0].mode.numpy()
    density = -0.5 * (stored - mean) ** 2 - 0.5 * np.log(2 * np.pi)
    np.testing.assert_allclose(experience.logprobs.numpy(), density.sum(-1), rtol=1e-3, atol=1e-3)


def test_all_truncations_are_bootstrapped_in_one_forward(scripted, accumulator):
    class Counting(accumulator):
        def step(self, obs, state, done):
            rows.append(len(obs))
            return super().step(obs, state, done)

    rows = []
    truncate = {(0, 0), (1, 0), (1, 2), (3, 1)}
    Collector(scripted(3, truncate=truncate, terminate={(2, 2)}), Counting(), 4, CPU).collect()
    assert rows == [3, 3, 3, 3, 3, len(truncate)]
    rows.clear()
    Collector(scripted(3, terminate={(2, 2)}), Counting(), 4, CPU).collect()
    assert rows == [3] * 5


def test_goes_on_from_its_saved_state(scripted, accumulator):
    def vector():
        return scripted(2, truncate={(4, 0)}, terminate={(2, 1)})

    stepped = vector()
    whole, before, after = (Collector(v, accumulator(), 3, CPU) for v in (vector(), vector(), stepped))
    whole.collect()
    wanted = whole.collect()
    before.collect()
    saved = before.state_dict()
    before.collect()  # what was saved must not change with what goes on
    for _ in range(3):
        stepped.step(np.zeros(2))
    after.load_state_dict(saved)
    got = after.collect()
    assert got.starts.tolist() == wanted.starts.tolist() == [[False, True], [False, False], [True, False]]
    assert got.values.tolist() == wanted.values.tolist()
    assert got.initial_state[0].tolist() == wanted.initial_state[0].tolist()

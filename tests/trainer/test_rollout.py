"""What a rollout keeps, and what it bootstraps from, against sums done by hand."""

import numpy as np
import torch
from gymnasium.spaces import Box

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


def test_box_actions_are_clipped_for_the_environment_only():
    space = Box(np.float32([-1, 0]), np.float32([1, 2]))
    sampled = torch.tensor([[-3.0, 0.5], [0.25, 7.0]])
    assert to_environment(sampled, space).tolist() == [[-1, 0.5], [0.25, 2]]
    assert sampled.tolist() == [[-3.0, 0.5], [0.25, 7.0]]

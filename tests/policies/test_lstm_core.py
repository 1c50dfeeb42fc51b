"""The LSTM with resets against an `nn.LSTMCell` loop that zeroes the state explicitly."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from puffertoolkit.errors import UserError
from puffertoolkit.policies import LSTMCore, NoCore
from puffertoolkit.policies import lstm as lstm_module
from puffertoolkit.policies.cells import TorchCell, cell_for
from puffertoolkit.policies.lstm import lstm


def reference_loop(core, x, state, done):
    """Run `core`'s weights through `nn.LSTMCell`, row by row of time, with explicit zeroing."""
    hidden = core.hidden_size
    cell = nn.LSTMCell(x.shape[-1], hidden, dtype=x.dtype)
    parameters = {
        "weight_ih": core.weight_ih,
        "weight_hh": core.weight_hh,
        "bias_ih": core.bias,
        "bias_hh": torch.zeros(4 * hidden, dtype=x.dtype),
    }
    h, c = state
    out = []
    for t in range(x.shape[0]):
        alive = torch.where(done[t], 0.0, 1.0)[:, None].to(x.dtype)
        h, c = torch.func.functional_call(cell, parameters, (x[t], (h * alive, c * alive)))
        out.append(h)
    return torch.stack(out), (h, c)


def make_case(steps, batch, inputs, hidden, done_rate, dtype=torch.float32, seed=0):
    torch.manual_seed(seed)
    core = LSTMCore(input_size=inputs, hidden_size=hidden).to(dtype)
    with torch.no_grad():
        core.bias.normal_()
    x = torch.randn(steps, batch, inputs, dtype=dtype, requires_grad=True)
    state = tuple(torch.randn(batch, hidden, dtype=dtype, requires_grad=True) for _ in range(2))
    return core, x, state, torch.rand(steps, batch) < done_rate


def gradients(core, out, state, inputs):
    torch.manual_seed(1)
    loss = (out * torch.randn_like(out)).sum()
    for part in state:
        loss = loss + (part * torch.randn_like(part)).sum()
    return torch.autograd.grad(loss, [*inputs, *core.parameters()])


@settings(max_examples=40, deadline=None)
@given(
    steps=st.integers(1, 9),
    batch=st.integers(1, 5),
    inputs=st.integers(1, 4),
    hidden=st.integers(1, 6),
    done_rate=st.sampled_from([0.0, 0.3, 1.0]),
    block_rows=st.sampled_from([1, 3, 8, 512]),
    seed=st.integers(0, 1000),
)
def test_values_and_gradients_match_the_reference(steps, batch, inputs, hidden, done_rate, block_rows, seed):
    core, x, state, done = make_case(steps, batch, inputs, hidden, done_rate, torch.float64, seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lstm_module, "BLOCK_ROWS", block_rows)
        out, last = core.sequence(x, state, done)
        mine = gradients(core, out, last, [x, *state])
        with torch.no_grad():
            unrecorded = core.sequence(x, state, done)
    expected_out, expected_last = reference_loop(core, x, state, done)
    expected = gradients(core, expected_out, expected_last, [x, *state])
    for a, b in zip((out, *last, *mine), (expected_out, *expected_last, *expected), strict=True):
        torch.testing.assert_close(a, b, atol=1e-10, rtol=1e-8)
    for a, b in zip((unrecorded[0], *unrecorded[1]), (out, *last), strict=True):
        torch.testing.assert_close(a, b, atol=1e-12, rtol=0)


def test_float32_is_as_exact_as_the_reference():
    core, x, state, done = make_case(64, 33, 20, 24, 0.05)
    out, last = core.sequence(x, state, done)
    expected_out, expected_last = reference_loop(core, x, state, done)
    torch.testing.assert_close(out, expected_out, atol=1e-5, rtol=0)
    for a, b in zip(last, expected_last, strict=True):
        torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-5)


def test_large_inputs_saturate_and_stay_finite():
    core, x, state, done = make_case(4, 3, 2, 5, 0.3)
    out, (h, c) = core.sequence(x * 1e4, state, done)
    assert out.isfinite().all()
    assert out.abs().max() <= 1
    grads = gradients(core, out, (h, c), [x, *state])
    assert all(grad.isfinite().all() for grad in grads)


@settings(max_examples=30, deadline=None)
@given(batch=st.integers(1, 70), hidden=st.integers(1, 70), scale=st.sampled_from([0.1, 1.0, 30.0]))
def test_the_cell_of_the_cpu_equals_that_of_every_device(batch, hidden, scale):
    torch.manual_seed(batch + 100 * hidden)
    keep, keep_after = (torch.rand(2, batch, 1) < 0.7).float()
    results = []
    case = [torch.randn(batch, n * hidden) * scale for n in (4, 1, 1, 1, 1)]
    bias = torch.randn(4 * hidden)
    for cell in (TorchCell(), cell_for(torch.zeros(1))):
        gates, c_before, dh, grad_h, dc = (tensor.clone() for tensor in case)
        c, tanh_c, h, h_after = torch.empty(4, batch, hidden)
        cell.forward(gates, bias, c_before, keep, c, tanh_c, h, keep_after, h_after)
        d_gates = torch.empty_like(gates)
        cell.backward(dh, keep_after, grad_h, dc, gates, c_before, keep, tanh_c, d_gates)
        results.append((gates, c, tanh_c, h, h_after, dc, d_gates))
    assert type(cell_for(torch.zeros(1))) is not TorchCell
    for mine, expected in zip(*results, strict=True):
        torch.testing.assert_close(mine, expected, atol=2e-6 * scale * scale + 2e-6, rtol=2e-6)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_what_is_no_number_stays_none_and_infinity_saturates(value):
    core, x, state, done = make_case(2, 3, 2, 20, 0.0)
    with torch.no_grad():
        core.weight_ih[3] = 0
        core.weight_ih[3, 0] = 1
        x[0, 1, 0] = value
        out, _ = core.sequence(x, state, done)
    assert out[0, 1, 3].isnan() == (value != value)
    assert out[:, [0, 2]].isfinite().all()


def test_gradcheck():
    core, x, state, done = make_case(5, 3, 2, 4, 0.4, torch.float64)
    inputs = (x, *state, done, core.weight_ih, core.weight_hh, core.bias)
    assert torch.autograd.gradcheck(lstm, inputs)


def test_no_gradient_crosses_an_episode_end():
    core, x, state, _ = make_case(6, 2, 3, 4, 0.0)
    done = torch.zeros(6, 2, dtype=torch.bool)
    done[3, 0] = True
    out, _ = core.sequence(x, state, done)
    by_x, by_h, by_c = torch.autograd.grad(out[3:].sum(), [x, *state])
    assert (by_x[:3, 0] == 0).all()
    assert (by_x[3:, 0] != 0).any()
    assert (by_x[:3, 1] != 0).any()
    for grad in (by_h, by_c):
        assert (grad[0] == 0).all()
        assert (grad[1] != 0).any()


def test_two_sequences_in_one_graph_do_not_disturb_each_other():
    core, x, state, done = make_case(5, 3, 2, 4, 0.2, torch.float64)
    first, _ = core.sequence(x, state, done)
    kept = first.detach().clone()
    second, _ = core.sequence(x * 2, state, done)
    assert torch.equal(first, kept)
    both = torch.autograd.grad((first * 3 + second).sum(), [x])[0]
    alone = torch.autograd.grad((core.sequence(x, state, done)[0] * 3).sum(), [x])[0]
    alone = alone + torch.autograd.grad(core.sequence(x * 2, state, done)[0].sum(), [x])[0]
    torch.testing.assert_close(both, alone)


def test_the_input_may_need_no_gradient_and_need_not_be_contiguous():
    core, x, state, done = make_case(4, 3, 2, 5, 0.3)
    x = x.detach()
    state = tuple(part.detach() for part in state)
    out, _ = core.sequence(x, state, done)
    expected, _ = reference_loop(core, x, state, done)
    for a, b in zip(
        torch.autograd.grad(out.sum(), core.parameters()),
        torch.autograd.grad(expected.sum(), core.parameters()),
        strict=True,
    ):
        torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-4)
    swapped = x.transpose(0, 1).contiguous().transpose(0, 1)
    flipped = done.T.contiguous().T
    torch.testing.assert_close(core.sequence(swapped, state, flipped)[0], out, atol=1e-6, rtol=0)


def test_step_leaves_the_state_it_was_given_alone():
    core, x, state, done = make_case(1, 3, 2, 5, 0.5)
    before = [part.detach().clone() for part in state]
    with torch.inference_mode():
        _, after = core.step(x[0], state, done[0])
        saved = [part.clone() for part in after]
        core.step(x[0] + 1, after, done[0])
    assert all(torch.equal(a, b) for a, b in zip(state, before, strict=True))
    assert all(torch.equal(a, b) for a, b in zip(after, saved, strict=True))


def test_training_may_start_from_the_state_a_rollout_left():
    core, x, state, done = make_case(2, 3, 2, 5, 0.3)
    with torch.inference_mode():
        _, state = core.step(x[0], state, done[0])
    out, _ = core.sequence(x[1:], state, done[1:])
    grads = torch.autograd.grad(out.sum(), core.parameters())
    expected, _ = reference_loop(core, x[1:], tuple(part.clone() for part in state), done[1:])
    for a, b in zip(grads, torch.autograd.grad(expected.sum(), core.parameters()), strict=True):
        torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-4)


def test_initial_state_is_zero_and_the_same_as_done():
    core, x, state, _ = make_case(1, 4, 3, 5, 0.0)
    fresh = core.initial_state(4)
    assert all(part.shape == (4, 5) and not part.any() for part in fresh)
    begun, _ = core.step(x[0], fresh, torch.zeros(4, dtype=torch.bool))
    reset, _ = core.step(x[0], state, torch.ones(4, dtype=torch.bool))
    assert torch.equal(begun, reset)


def test_every_gate_starts_orthogonal_and_only_the_forget_bias_is_set():
    core = LSTMCore(input_size=12, hidden_size=8)
    for weight in (core.weight_ih, core.weight_hh):
        for gate in weight.detach().chunk(4):
            torch.testing.assert_close(gate @ gate.T, torch.eye(8), atol=1e-5, rtol=0)
    i, f, g, o = core.bias.detach().chunk(4)
    assert (f == 1).all()
    assert not torch.cat([i, g, o]).any()


def test_no_core_passes_on_and_refuses_to_change_the_size():
    core = NoCore(input_size=4, hidden_size=4)
    x = torch.randn(3, 2, 4)
    assert core.sequence(x, core.initial_state(2), torch.zeros(3, 2, dtype=torch.bool)) == (x, ())
    with pytest.raises(UserError, match="input_size"):
        NoCore(input_size=4, hidden_size=5)

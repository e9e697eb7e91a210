"""Adam over a flat gradient: torch's numbers up to rounding, alone or in the noise's pass."""

import copy

import pytest
import torch
from torch import nn

from tests.refusals import refused
from trainables.privacy import _native
from trainables.privacy.flat import FlatGradient, Layout
from trainables.privacy.flat_adam import FlatAdam
from trainables.privacy.noise import add_noise_, public_key

KEY = public_key(0, "flat adam")


def model():
    """Parameters of unlike sizes: one number, less and more than a block of the compiled pass."""
    torch.manual_seed(0)
    return nn.ModuleDict(
        {
            "one": nn.Linear(1, 1),
            "some": nn.Linear(37, 91),
            "many": nn.Embedding(700, 300),
            "last": nn.Linear(3, 1, bias=False),
        }
    )


def gradients(size, steps):
    """One of them 0 in places, as an embedding's is."""
    torch.manual_seed(1)
    found = [torch.randn(size) * 10.0**-step for step in range(steps)]
    found[1][::3] = 0
    return found


@pytest.fixture(params=["1", "0"], ids=["compiled", "torch"])
def native(request, monkeypatch):
    monkeypatch.setenv("SWEEP_NATIVE", request.param)
    _native.forget()
    if request.param == "1" and _native.adam() is None:
        pytest.skip("no C compiler (cc) on this machine")
    yield request.param == "1"
    _native.forget()


def test_steps_are_those_of_torch(native):
    """Weights after four steps, with a share: to 1e-6 of a step's size."""
    ours, theirs = model(), model()
    layout = Layout.of(ours)
    gradient = FlatGradient(layout)
    adam = FlatAdam(layout, learning_rate=1e-2)
    assert adam.is_compiled == native
    reference = torch.optim.Adam(theirs.parameters(), lr=1e-2)
    for values in gradients(layout.size, 4):
        gradient.data.copy_(values)
        adam.step(gradient, share=1 / 7)
        torch.testing.assert_close(gradient.data, values / 7)
        for k, parameter in enumerate(theirs.parameters()):
            parameter.grad = (values / 7)[layout.segment(k)].view_as(parameter)
        reference.step()
    for ours_k, theirs_k in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(ours_k, theirs_k, rtol=1e-6, atol=1e-8)


def test_noise_that_is_not_compiled_takes_no_step(monkeypatch):
    """It says so, and the engine takes the step."""
    if _native.adam() is None:
        pytest.skip("no C compiler (cc) on this machine")
    monkeypatch.setattr(_native, "add_noise", lambda: None)
    weights = model()
    gradient = FlatGradient(Layout.of(weights))
    adam, whole = FlatAdam(gradient.layout, learning_rate=1e-2), slice(0, gradient.layout.size)
    how = {"stream": KEY.stream(0), "segments": [(whole, 0.3)], "adam": adam}
    assert not add_noise_(gradient.data, **how)
    assert torch.equal(weights["one"].weight, model()["one"].weight)


def test_noise_and_step_in_one_pass_are_noise_and_then_the_step():
    """The same bits, over several segments; and the pass says whether it took the step."""
    if _native.add_noise() is None or _native.adam() is None:
        pytest.skip("no C compiler (cc), or a processor without AES instructions")
    apart, together = model(), model()
    for which, one_pass in ((apart, False), (together, True)):
        layout = Layout.of(which)
        gradient, adam = FlatGradient(layout), FlatAdam(layout, learning_rate=1e-2)
        middle = layout.size // 3
        segments = [(slice(0, middle), 0.3), (slice(middle, layout.size), 0.9)]
        for number, values in enumerate(gradients(layout.size, 3)):
            gradient.data.copy_(values)
            how = {"stream": KEY.stream(number), "segments": segments, "factor": 0.7}
            if one_pass:
                assert add_noise_(gradient.data, adam=adam, share=0.25, **how)
            else:
                assert not add_noise_(gradient.data, **how)
                adam.step(gradient, share=0.25)
        which.released = gradient.data.clone()
    assert torch.equal(apart.released, together.released)
    for a, b in zip(apart.parameters(), together.parameters(), strict=True):
        assert torch.equal(a, b)


def test_a_step_resumes_from_the_saved_state(native):
    """Bit for bit, on parameters that were given other memory."""
    first = model()
    layout = Layout.of(first)
    adam, gradient = FlatAdam(layout, learning_rate=1e-2), FlatGradient(layout)
    steps = gradients(layout.size, 4)
    for values in steps[:2]:
        gradient.data.copy_(values)
        adam.step(gradient, share=1.0)
    second = copy.deepcopy(first)
    other = FlatAdam(Layout.of(second), learning_rate=1e-2)
    other.load_state_dict(adam.state_dict())
    for parameter in second.parameters():
        parameter.data = parameter.data.clone()
    for values in steps[2:]:
        for one in (adam, other):
            gradient.data.copy_(values)
            if one.is_compiled:
                one.step(gradient, share=1.0)
                continue
            own = FlatGradient(one.layout)
            own.data.copy_(values)
            one.step(own, share=1.0)
    for a, b in zip(first.parameters(), second.parameters(), strict=True):
        assert torch.equal(a, b)


def test_moments_of_another_model_are_refused():
    adam = FlatAdam(Layout.of(model()), learning_rate=1e-2)
    with refused("optimiser state of 213463 numbers, got 2"):
        adam.load_state_dict(
            {"adam.exp_avg": torch.zeros(2), "adam.exp_avg_sq": torch.zeros(2), "adam.step": None}
        )


def test_where_the_compiled_pass_cannot_go_torch_does():
    """Numbers of 64 bits, and parameters that do not lie in one piece."""
    wide = nn.Linear(4, 3).double()
    scattered = nn.Linear(4, 3)
    scattered.weight = nn.Parameter(torch.randn(4, 3).t())
    for made in (wide, scattered):
        layout = Layout.of(made)
        gradient, adam = FlatGradient(layout), FlatAdam(layout, learning_rate=0.5)
        assert not adam.is_compiled
        before = made.weight.detach().clone()
        # A first step is as long as the rate, whatever the gradient, so its signs tell the places.
        signs = torch.tensor([1.0, 1.0, -1.0]).repeat(4).view(3, 4).to(before.dtype)
        gradient.data.fill_(3.0)
        gradient.data[:12] *= signs.flatten()
        adam.step(gradient, share=1.0)
        torch.testing.assert_close(made.weight, before - 0.5 * signs)


def test_moments_and_steps_lie_where_the_parameters_lie():
    adam = FlatAdam(Layout.of(nn.Linear(2, 2, device="meta")), learning_rate=1e-3)
    assert not adam.is_compiled
    for state in adam._torch.state.values():
        assert {value.device.type for value in state.values()} == {"meta"}

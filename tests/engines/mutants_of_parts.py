"""Mutants of what is chosen beside the engine: trained parts, steps.

Each row: what is broken, how, a check that must notice, the test that runs it on the real code.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import engine_checks as checks
import numpy as np
import pytest
import torch
from engine_checks import gradients, mechanism

from tests.models import test_adapted_lstm
from tests.whole_trial.naive import in_double, sum_of_clipped
from tests.whole_trial.small import model_and_loader
from tests.whole_trial.test_released_sum import units_of
from trainables import catalogue
from trainables.accountants._release import release
from trainables.engines import Setup, _private
from trainables.layers.layer_norm import LayerNormEntry
from trainables.layers.linear import LinearEntry
from trainables.layers.lstm import LstmEntry
from trainables.models._lora import AdaptedBiLstm
from trainables.privacy.mechanism import Mechanism
from trainables.privacy.noise import public_key
from trainables.system.communication import Alone

Patch = pytest.MonkeyPatch
Row = tuple[str, Callable[[Patch], None], Callable[[], None], str]


def _released(kind: str) -> Callable[[], None]:
    """A step of a small model against the definition, which reads no book.

    Its heads are fixed, and adapters have left their start, so that the encoder's part is seen.
    """

    def check() -> None:
        bound = 0.02
        mech = mechanism("dp_sgd", records=12, batch=6, workers=1, max_grad_norm=bound)
        model, loader = model_and_loader(kind, dropout=0.0)
        torch.manual_seed(0)
        for name, own in model.named_parameters():
            if name.startswith(("intent_head", "tag_head", "crf")):
                own.requires_grad_(False)
            elif ".up." in name:
                torch.nn.init.normal_(own, std=0.1)
        made = catalogue.entry("engines", mech.engine).make(
            model,
            replace(mech, noise_multiplier=0.0),
            Setup(
                loader=loader, ids=np.arange(12), learning_rate=0.05, comm=Alone(),
                key=public_key(0, "mutants"),
            ),
        )  # fmt: skip
        model, units = in_double(model), units_of(made, 0, 0)
        made.step(0, 0)
        expected, _ = sum_of_clipped(
            model, loader, units, max_grad_norm=bound, group_scale=made.group_scale,
        )  # fmt: skip
        found = made.released.double() * mech.num_microbatches
        assert float((found - expected).norm()) <= 2e-4 * bound * len(units)

    return check


def _of_steps() -> Mechanism:
    return replace(mechanism("dp_sgd"), num_steps=103, steps_per_epoch=20, epochs=6)


def _pieces_are_paid() -> None:
    made = _of_steps()
    counts = [release(made, first=n, last=n + 1).phases for n in range(6)]
    assert [sum(count for _, count in phases) for phases in counts] == [20] * 5 + [3]


def _noise_is_passed_on() -> None:
    mech = mechanism("dp_sgd")
    made = checks.engine_on(mech, gradients(4), [[]], optimizer="adam_bc")
    made.step(0, 0)
    stds = [std * mech.num_microbatches for std in made._optimizer.noise_stds]
    checks.check_noise_scale(mech, stds)


# --- what is broken ---------------------------------------------------------------------------


def _second_adapter_has_no_norm(patch: Patch) -> None:
    right = LinearEntry.squared_norms
    patch.setattr(
        LinearEntry,
        "squared_norms",
        lambda self, *how: right(self, *how) * (0.0 if self.weight.shape[1] == 2 else 1.0),
    )


def _recurrent_adapters_have_half_a_norm(patch: Patch) -> None:
    """The small CLC has 16 units, which are the width of its recurrent maps alone."""
    right = LinearEntry.squared_norms
    patch.setattr(
        LinearEntry,
        "squared_norms",
        lambda self, *how: right(self, *how) * (0.0 if self.weight.shape == (2, 16) else 1.0),
    )


def _adapters_read_the_state_of_their_own_time(patch: Patch) -> None:
    right = AdaptedBiLstm.entries

    def entries(self: AdaptedBiLstm, x: Any, h: Any, dz: Any, layout: Any) -> Any:
        now = h.clone()
        now.index_copy_(1, layout.previous, h[:, layout.num_records :])
        return right(self, x, now, dz, layout)

    patch.setattr(AdaptedBiLstm, "entries", entries)


def _bias_of_frozen_has_no_norm(entry: type[LinearEntry] | type[LstmEntry]) -> Any:
    right: Any = entry._factors

    def breaks(patch: Patch) -> None:
        def factors(self: Any, *how: Any) -> Any:
            terms, g, ones = right(self, *how)
            return terms, g, ones if terms else 0.0

        patch.setattr(entry, "_factors", factors)

    return breaks


def _frozen_weights_have_a_norm(patch: Patch) -> None:
    right = LinearEntry._factors

    def factors(self: LinearEntry, weights: Any) -> Any:
        terms, g, ones = right(self, weights)
        return terms or [(self.x, 1.0)], g, ones

    patch.setattr(LinearEntry, "_factors", factors)


def _scales_have_no_norm(patch: Patch) -> None:
    right = LayerNormEntry.squared_norms
    patch.setattr(
        LayerNormEntry,
        "squared_norms",
        lambda self, units, weights: right(self, units, {**weights, self.weight: 0.0}),
    )


def _rest_is_free(patch: Patch) -> None:
    right = Mechanism.steps_in
    patch.setattr(Mechanism, "steps_in", lambda self, epoch: right(self, epoch) // 20 * 20)


def _piece_is_one_step(patch: Patch) -> None:
    patch.setattr(Mechanism, "steps_in", lambda self, epoch: 1)


def _noise_of_the_sum(patch: Patch) -> None:
    right = _private.PrivateEngine._noise_stds
    patch.setattr(
        _private.PrivateEngine,
        "_noise_stds",
        lambda self, epoch: [std * self._mechanism.num_microbatches for std in right(self, epoch)],
    )


SUM = "test_released_sum::test_two_steps_release_what_the_definition_says"
PAID = "test_steps::test_each_piece_costs_its_steps_and_no_more"

ROWS: list[Row] = [
    ("the second matrix of an adapter left out of the norm", _second_adapter_has_no_norm,
     _released("bert, adapters of the top layer"), SUM),
    ("the first matrix of a recurrent adapter left out of the norm",
     _recurrent_adapters_have_half_a_norm, _released("clc, adapters"), SUM),
    ("adapters of a recurrent map read the state of their own time, not the one before",
     _adapters_read_the_state_of_their_own_time,
     partial(test_adapted_lstm.test_the_same_of_one_layer, 1e9),
     "test_adapted_lstm::test_the_same_of_one_layer"),
    ("biases of frozen weights left out of the norm", _bias_of_frozen_has_no_norm(LinearEntry),
     _released("bert, biases"), SUM),
    ("the same, of an LSTM", _bias_of_frozen_has_no_norm(LstmEntry),
     _released("clc, biases of the top layer"), SUM),
    ("frozen weights counted in the norm", _frozen_weights_have_a_norm,
     _released("bert, biases"), SUM),
    ("scales of a trained norm left out of the clip", _scales_have_no_norm,
     _released("bert, biases"), SUM),
    ("the steps of the last piece are free", _rest_is_free, _pieces_are_paid, PAID),
    ("a piece of steps is paid for as one", _piece_is_one_step, _pieces_are_paid, PAID),
    ("the optimiser gets the noise of the sum, not of the mean", _noise_of_the_sum,
     _noise_is_passed_on, "test_after_the_release::test_the_optimiser_gets_the_added_noise"),
]  # fmt: skip

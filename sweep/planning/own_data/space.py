"""The space that `sweep init` writes: commented YAML for a person to edit."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

_TEXT = """\
# Written by `sweep init`. Edit freely; `sweep plan {file}` shows what would run and spends nothing.
name: {name}
description: >
  A start on one's own records: without privacy, the paper's eDP-SGD, and exact DP-SGD at a
  guaranteed epsilon of {epsilon}.

base:
  data:
    name: json_lines
    path: {path}
    # Declared public: the label names in this file. A label outside of it is never trained on.
    schema_file: {schema}
    # The parts as they stand in the file (train, validation, test).
    split: official
    # Declared public: about how many records (groups, with privacy.unit: group) train. It need not
    # be exact, and should not be where a change by one would say that somebody is among them.
    num_records: {num_records}
  # delta is 1e-5, or 1 / (10 num_records) where that is smaller.
  privacy: {{max_grad_norm: 1.0}}
  # The CLC of Dupuy et al. 2021, smaller (search_spaces/atis_grid.yaml has the paper's sizes).
  model: {{name: clc, word_vectors: hashed, word_buckets: 1024, word_dim: 32, char_filters: 24,
          hidden_size: 64, num_layers: 1}}
  training: {{epochs: 10, expected_batch_size: {batch}, learning_rate: 5.0e-3}}

variants:
  # What is reached without privacy: every other trial is compared with it.
  - name: sgd
    baseline: true
    set: {{engine: sgd}}

  # The paper's algorithm. `epsilon_paper` is the paper's figure; `epsilon` is what it guarantees,
  # which is far larger (docs/privacy.md).
  - name: edp-sgd
    set:
      engine: edp_sgd
      training.num_workers: 2
      privacy.noise_multiplier: 0.01
      privacy.noise_decay: {{kind: linear, tau: 0.1}}

  # Exact DP-SGD on all weights: the noise is calibrated to the epsilon.
  - name: dp-sgd
    set:
      engine: dp_sgd
      privacy.noise_multiplier: {{target_epsilon: {epsilon}}}

  # Heads on the features of a fixed public encoder, without privacy and at the same epsilon: the
  # best start with few records (docs/utility.md; the settings are those of epsilon_8.yaml).
  - name: heads
    baseline: true
    set:
      engine: sgd
      model: {{name: features, encoder: small, components: 256}}
      training: {{epochs: 15, steps_per_epoch: 20, optimizer: momentum, learning_rate: 10,
                 learning_rate_decay: linear}}
      privacy: {{sampling: full}}
  - name: dp-heads
    set:
      engine: dp_sgd
      model: {{name: features, encoder: small, components: 256}}
      privacy:
        max_grad_norm: 0.5
        sampling: full
        noise_multiplier: {{target_epsilon: {epsilon}}}
      training: {{epochs: 5, steps_per_epoch: 20, optimizer: momentum, learning_rate: 400,
                 learning_rate_decay: linear}}

# repeats: 3   # seeds of each trial; every run of a private trial spends its epsilon again
resources: {{workers: 1, executor: per_trial}}
"""


@dataclass(frozen=True, kw_only=True)
class Start:
    """What a starting space is made of."""

    name: str
    file: Path
    utterances: Path
    schema: Path
    num_records: int
    epsilon: float


def text_of(start: Start) -> str:
    """The YAML text."""
    return _TEXT.format(
        name=start.name,
        file=start.file,
        path=json.dumps(str(start.utterances.absolute()), ensure_ascii=False),
        schema=json.dumps(str(start.schema.absolute()), ensure_ascii=False),
        num_records=start.num_records,
        epsilon=f"{start.epsilon:g}",
        batch=min(64, max(1, start.num_records // 8)),
    )


def rounded(number: int) -> int:
    """Two digits of a count, to be declared in its place.

    >>> rounded(1_237), rounded(96), rounded(7)
    (1200, 96, 7)
    """
    digits = max(0, len(str(number)) - 2)
    unit: int = 10**digits
    return round(number / unit) * unit

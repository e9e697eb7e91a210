"""The reference pages are made from the program."""

from __future__ import annotations

from sweep.reference import pages


def test_every_command_and_field_is_there() -> None:
    made = pages()
    for command in ("sweep plan", "sweep data check", "sweep pretrain"):
        assert f"## `{command}`" in made["commands.md"]
    for field in ("privacy.max_grad_norm", "model.encoder", "budget.total"):
        assert f"`{field}`" in made["fields.md"]
    assert "`epsilon`" in made["figures.md"]

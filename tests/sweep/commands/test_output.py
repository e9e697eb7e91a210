"""What commands print for people."""

from sweep.commands._output import say_table


def test_a_label_with_brackets_is_no_markup(capsys):
    say_table(("label", "records"), [("[/city]", "1"), ("[red]", "2")], right=True)
    printed = capsys.readouterr().out
    assert "[/city]" in printed
    assert "[red]" in printed

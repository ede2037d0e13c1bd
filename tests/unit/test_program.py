"""How the program is called."""

import sys

import pytest

from embodied.core.program import program_text


@pytest.mark.parametrize(
    ("started", "text"),
    [
        ("/opt/venv/bin/dreamerv3", "dreamerv3 replay"),
        ("dreamerv3/main.py", "python dreamerv3/main.py replay"),
        ("/a/b/embodied/replay.py", "python -m embodied.replay"),
        ("notebook", "dreamerv3 replay"),
    ],
)
def test_commands_are_named_as_the_program_was_started(monkeypatch, started, text):
    monkeypatch.setattr(sys, "argv", [started])
    assert program_text("replay", "python -m embodied.replay") == text

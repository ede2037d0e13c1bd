"""The line at the bottom of a terminal."""

import io
import sys
import time

import numpy as np
import pytest

from embodied.core.logger import Logger
from embodied.core.schedule import Counter
from embodied.core.writers.terminal import LiveProgress, StatusLine
from embodied.core.writers.writer import Record


class Terminal(io.StringIO):
    """A small terminal: what is on its lines after carriage returns and erasures."""

    def isatty(self):
        return True

    def screen(self):
        lines, column = [""], 0
        for part in self.getvalue().replace("\x1b[2K", "\0"):
            if part == "\n":
                lines.append("")
                column = 0
            elif part == "\r":
                column = 0
            elif part == "\0":
                lines[-1] = ""
            else:
                lines[-1] = lines[-1][:column] + part + lines[-1][column + 1 :]
                column += 1
        return lines


@pytest.fixture
def terminal(monkeypatch):
    terminal = Terminal()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "40")
    return terminal


def test_line_is_replaced_and_stays_below_what_is_printed(terminal):
    line = StatusLine(terminal)
    line.show("step 10 and a long rest")
    line.show("step 20")
    assert terminal.screen() == ["step 20"]
    print("saved", file=line)
    assert terminal.screen() == ["saved", ""]
    line.show("step 30")
    assert terminal.screen() == ["saved", "step 30"]
    print("no line break yet", end="", file=line)
    line.show("step 40")
    print(", now there is", file=line)
    line.show("x" * 100)
    assert terminal.screen() == ["saved", "no line break yet, now there is", "x" * 39]
    line.show("")
    assert terminal.screen()[-1] == ""
    assert line.isatty()


def test_text_is_that_of_the_run_and_the_newest_score(terminal, monkeypatch):
    monkeypatch.setattr(sys, "stdout", terminal)
    progress = LiveProgress(period=3600)
    logger = Logger(Counter(), [progress])
    try:
        assert progress.text() == ""
        logger.follow(lambda: "Step 640 of 10,000 | learning waits for data: 640 of 1,024 items")
        text = "Step 640 of 10,000 | learning waits for data: 640 of 1,024 items"
        assert progress.text() == text
        progress([Record(4500, "episode/score_mean", np.asarray(12.5)), Record(1, "text", "hello")])
        assert progress.text() == f"{text} | score 12.5"
    finally:
        progress.close()


def test_line_comes_by_itself_and_the_terminal_is_given_back(terminal, monkeypatch):
    monkeypatch.setattr(sys, "stdout", terminal)
    assert LiveProgress.supported()
    progress = LiveProgress(period=0.01)
    progress.follow(lambda: "step 5 of 10")
    try:
        assert sys.stdout is not terminal
        while "step 5 of 10" not in terminal.getvalue():
            time.sleep(0.001)
        print("a line above")
    finally:
        progress.close()
    assert sys.stdout is terminal
    assert terminal.screen() == ["a line above", ""]


def test_pipes_and_dumb_terminals_have_no_line(terminal, monkeypatch):
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setenv("TERM", "dumb")
    assert not LiveProgress.supported()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    assert not LiveProgress.supported()

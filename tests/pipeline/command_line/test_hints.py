"""Messages call commands and settings by the names they were typed by."""

from __future__ import annotations

import re

import pytest

from pipeline.command_line import declared, hints, table
from tests.pipeline.process_help import ROOT


@pytest.mark.parametrize(
    ("text", "typed"),
    [
        ("Run make preprocess.", "Run estimator-pipeline preprocess."),
        ("make train CONFIG=x.yaml", "estimator-pipeline train --config=x.yaml"),
        ("make preprocess FORCE=1", "estimator-pipeline preprocess --force"),
        ("make replay-dead-letter", "estimator-pipeline replay-dead-letter"),
        ("make verify REPAIR=1)", "estimator-pipeline verify --repair)"),
        ("use another RUN= for this", "use another --run= for this"),
        ("make room for 2 GiB", "make room for 2 GiB"),
        ("TF_CONFIG= and MY_RUN=1", "TF_CONFIG= and MY_RUN=1"),
        ("run make setup", "run pip install estimator-pipeline"),
    ],
)
def test_hints_are_of_the_command_that_was_typed(monkeypatch, text, typed):
    monkeypatch.setenv(hints.VIA, "command")
    assert hints.as_typed(text) == typed
    for via in ("make", ""):
        monkeypatch.setenv(hints.VIA, via)
        assert hints.as_typed(text) == text


@pytest.mark.parametrize(
    ("text", "typed"),
    [
        ("Run make preprocess.", "Run make preprocess CONFIG=flights STORAGE='/my data'."),
        (
            "Run make preprocess SET=data.in_place=values",
            "Run make preprocess CONFIG=flights STORAGE='/my data' SET=data.in_place=values",
        ),
        ("make train CONFIG=x.yaml", "make train STORAGE='/my data' CONFIG=x.yaml"),
        ("make replay RUN=r repeats it", "make replay STORAGE='/my data' RUN=r repeats it"),
        (
            "make train with the same RUN= continues",
            "make train CONFIG=flights STORAGE='/my data' with the same RUN= continues",
        ),
        ("make verify RECORDS=/r REPAIR=1", "make verify RECORDS=/r REPAIR=1"),
        (
            "make preprocess FORCE=1; make verify RECORDS=/r",
            "make preprocess CONFIG=flights STORAGE='/my data' FORCE=1; make verify RECORDS=/r",
        ),
        ("make schema suggests one", "make schema suggests one"),
        ("make room for 2 GiB", "make room for 2 GiB"),
    ],
)
def test_hints_name_what_the_command_works_on(monkeypatch, text, typed):
    monkeypatch.setenv(hints.VIA, "make")
    assert hints.as_typed(text, ["stats", "--config=flights", "--storage=/my data"]) == typed


def test_a_hint_names_the_run_that_was_given(monkeypatch):
    monkeypatch.setenv(hints.VIA, "command")
    typed = hints.as_typed("see make logs ROLE=chief. make status", ["", "--run=r", "--set=a=1"])
    assert typed == (
        "see estimator-pipeline logs --run=r --role=chief. estimator-pipeline status --run=r"
    )


def test_the_settings_that_messages_name_are_those_of_the_commands():
    makefile = (ROOT / "Makefile").read_text()
    listed = re.search(r"VARIABLES := ((?:.*\\\n)*.*)", makefile)[1].replace("\\\n", " ").split()
    known = {
        name.upper()
        for one in table.COMMANDS.values()
        for name in declared.read(one.module).settings
    }
    known |= {name.upper() for name in table.KEYS}
    assert set(hints.SETTINGS) == known & set(listed)

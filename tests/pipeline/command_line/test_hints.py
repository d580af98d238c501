"""Messages call commands and settings by the names they were typed by."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

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
    assert hints.format_as_typed(text) == typed
    for via in ("make", ""):
        monkeypatch.setenv(hints.VIA, via)
        assert hints.format_as_typed(text) == text


@pytest.mark.parametrize(
    ("text", "typed"),
    [
        ("Run make preprocess.", "Run make preprocess CONFIG=flights STORAGE='/my data'."),
        (
            "Run make preprocess SET=data.in_place=values",
            "Run make preprocess SET=data.in_place=values CONFIG=flights STORAGE='/my data'",
        ),
        ("make train CONFIG=x.yaml", "make train CONFIG=x.yaml STORAGE='/my data'"),
        (
            "Reproduce it with make replay RUN=r",
            "Reproduce it with make replay RUN=r STORAGE='/my data'",
        ),
        (
            "make train with the same RUN= continues",
            "make train CONFIG=flights STORAGE='/my data' with the same RUN= continues",
        ),
        ("make verify RECORDS=/r REPAIR=1", "make verify RECORDS=/r REPAIR=1"),
        (
            "make preprocess FORCE=1; make verify RECORDS=/r",
            "make preprocess FORCE=1 CONFIG=flights STORAGE='/my data'; make verify RECORDS=/r",
        ),
        ("make schema suggests one", "make schema suggests one"),
        ("make room for 2 GiB", "make room for 2 GiB"),
    ],
)
def test_hints_name_what_the_command_works_on(monkeypatch, text, typed):
    monkeypatch.setenv(hints.VIA, "make")
    assert hints.format_as_typed(text, ["stats", "--config=flights", "--storage=/my data"]) == typed


def test_a_hint_names_the_run_that_was_given(monkeypatch):
    monkeypatch.setenv(hints.VIA, "command")
    typed = hints.format_as_typed(
        "see make logs ROLE=chief. make status", ["", "--run=r", "--set=a=1"]
    )
    assert typed == (
        "see estimator-pipeline logs --role=chief --run=r. estimator-pipeline status --run=r"
    )


SETTINGS = ["--set=data.generate.rows=10", "--set=train.optimizer={name: sgd}"]


@pytest.mark.parametrize(
    ("text", "by_make", "by_command"),
    [
        (
            "Run make preprocess.",
            "Run make preprocess SET='data.generate.rows=10 train.optimizer={name: sgd}'.",
            "Run estimator-pipeline preprocess --set=data.generate.rows=10 "
            "--set='train.optimizer={name: sgd}'.",
        ),
        (
            "make train SET=data.generate.rows=5",
            "make train SET='train.optimizer={name: sgd} data.generate.rows=5'",
            "estimator-pipeline train --set='train.optimizer={name: sgd}' "
            "--set=data.generate.rows=5",
        ),
        (
            'make train SET="data.label=x y.z=1"',
            "make train SET='data.generate.rows=10 train.optimizer={name: sgd} data.label=x y.z=1'",
            "estimator-pipeline train --set=data.generate.rows=10 "
            "--set='train.optimizer={name: sgd}' --set=data.label=x --set=y.z=1",
        ),
        ("make status", "make status", "estimator-pipeline status"),
    ],
)
def test_hints_have_the_settings_that_were_given(monkeypatch, text, by_make, by_command):
    monkeypatch.setenv(hints.VIA, "command")
    assert hints.format_as_typed(text, ["train", *SETTINGS]) == by_command
    monkeypatch.setenv(hints.VIA, "make")
    in_one = "--set=" + " ".join(one.removeprefix("--set=") for one in SETTINGS)
    assert hints.format_as_typed(text, ["train", in_one]) == by_make


def test_one_setting_is_not_quoted(monkeypatch):
    monkeypatch.setenv(hints.VIA, "make")
    typed = hints.format_as_typed("Run make preprocess.", ["train", "--set=train.steps=5"])
    assert typed == "Run make preprocess SET=train.steps=5."


GIVEN = {"config": "my job.yaml", "run": "r1", "storage": "gs://b/x", "data": "a b.csv"}


@pytest.mark.parametrize(
    ("text", "completed"),
    [
        ("Run make preprocess.", "Run make preprocess CONFIG='my job.yaml' STORAGE=gs://b/x."),
        (
            "Reproduce it with make replay RUN=x",
            "Reproduce it with make replay RUN=x STORAGE=gs://b/x",
        ),
        ("make verify RECORDS=/a REPAIR=1", "make verify RECORDS=/a REPAIR=1"),
        ("make runs lists them", "make runs STORAGE=gs://b/x lists them"),
        ("see make logs ROLE=chief. No", "see make logs ROLE=chief RUN=r1 STORAGE=gs://b/x. No"),
        (
            "make train with the same RUN=",
            "make train CONFIG='my job.yaml' STORAGE=gs://b/x with the same RUN=",
        ),
        ("make schema HEADER=0", "make schema HEADER=0 DATA='a b.csv'"),
        ("make data CONFIG=x.yaml, or", "make data CONFIG=x.yaml, or"),
    ],
)
def test_commands_are_given_what_this_process_was_given(text, completed):
    assert hints.complete(text, GIVEN) == completed
    assert hints.complete(completed, GIVEN) == completed


def test_records_of_a_run_are_of_the_config_that_it_keeps(monkeypatch):
    monkeypatch.setenv(hints.VIA, "make")
    typed = hints.format_as_typed("Run make preprocess, see make status", ["", "--run=r"])
    kept = "CONFIG=output/runs/r/config.yaml"
    assert typed == f"Run make preprocess {kept}, see make status RUN=r"


def test_what_is_the_default_is_not_given_again():
    given = {"config": "mnist", "storage": "output", "out": ""}
    assert hints.complete("Run make preprocess.", given) == "Run make preprocess."


def _printed() -> Iterator[tuple[str, str]]:
    """Yields where each message of the packages names a command, and its text."""
    for package in ("pipeline", "preprocessing", "serving", "trainer"):
        for path in sorted((ROOT / package).rglob("*.py")):
            if "make " not in (source := path.read_text()):
                continue
            nodes = list(ast.walk(ast.parse(source)))
            within = {id(part) for node in nodes for part in _within(node)}
            for node in nodes:
                if isinstance(node, ast.Constant | ast.JoinedStr) and id(node) not in within:
                    text = _text(node)
                    if "make " in text:
                        yield f"{path.relative_to(ROOT)}:{node.lineno}", text


def _within(node: ast.AST) -> Sequence[ast.AST]:
    """Returns the docstring of a node, and the parts of a text."""
    if isinstance(node, ast.JoinedStr):
        return [part for value in node.values for part in ast.walk(value)]
    body = getattr(node, "body", None)
    said = body[0] if isinstance(body, list) and body else None
    return [said.value] if isinstance(said, ast.Expr) else []


def _text(node: ast.Constant | ast.JoinedStr) -> str:
    if isinstance(node, ast.Constant):
        return str(node.value)
    parts = [p.value if isinstance(p, ast.Constant) else "x" for p in node.values]
    return "".join(map(str, parts))


def test_every_command_in_a_message_exists_and_takes_what_it_is_given():
    """Once completed, too: with a config, run and storage as they were given."""
    seen = 0
    for where, text in _printed():
        for shown in (text, hints.complete(text, GIVEN)):
            for found in re.finditer(
                r"\bmake ([a-z-]+)((?: [A-Z_]+=(?:'[^']*'|[^\s'\"]*))*)", shown
            ):
                command, given = found.groups()
                if command not in table.COMMANDS:
                    continue
                seen += 1
                known = {
                    name.upper() for name in declared.read(table.COMMANDS[command].module).settings
                }
                names = set(re.findall(r" ([A-Z_]+)=", given))
                assert names <= known | {n.upper() for n in table.KEYS}, where
    assert seen > 80


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

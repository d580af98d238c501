"""What README and docs/ print as commands, configs and code is such that exists."""

from __future__ import annotations

import ast
import functools
import importlib
import importlib.util
import pathlib
import re
import shlex

import pytest
import yaml

from pipeline import api, config, errors, packages
from pipeline.command_line import declared, overrides, table
from pipeline.command_line.hints import PROGRAM
from pipeline.config import config_file

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
MAKEFILE = (ROOT / "Makefile").read_text()


def blocks(page, *languages):
    """Returns the blocks of code in one of some languages."""
    found = re.findall(r"^ *```(\w*)\n(.*?)^ *```$", page.read_text(), re.M | re.S)
    return [text for language, text in found if language in languages]


def commands(page):
    """Returns the words of the commands on a page, in blocks and between backticks."""
    text = page.read_text()
    prose = re.sub(r"^ *```.*?^ *```$", "", text, flags=re.MULTILINE | re.DOTALL)
    printed = "".join(blocks(page, "sh")).replace("\\\n", " ")
    lines = [*printed.splitlines(), *re.findall(rf"`((?:make|{PROGRAM}) [^`]*)`", prose)]
    for line in lines:
        found = re.match(rf"(?:\$ )?(?:[A-Z_]+=\S* )*((?:make|{PROGRAM})\b.*)", line)
        if found:
            words = shlex.split(re.sub(r"[][]|…", " ", found[1]), comments=True)
            ends = [at for at, word in enumerate(words) if word in ("|", ">", "--", "&&", ";")]
            yield words[: min(ends, default=len(words))]


@functools.cache
def recipe(target):
    """Returns the rule of a target of make with what its variables stand for."""
    [text] = re.findall(rf"^{target}:.*\n(?:\t.*\n|.*\\\n)*", MAKEFILE, re.M)
    for _ in range(3):
        for name, value in re.findall(r"^([A-Z_]+) *:?= *((?:.*\\\n)*.*)", MAKEFILE, re.M):
            text = text.replace(f"$({name})", f"{name} {value}")
    return text


def _is_of_config(settings):
    """True if all keys of SET= exist, whatever their values."""
    try:
        config_file.load("mnist", overrides.split(settings))
    except errors.UsageError as error:
        return "unknown key" not in str(error)
    return True


def wrong_words(words):
    """Yields what of a command does not exist: itself, a setting, or the value of one."""
    program, *words = words
    by_make = program == "make"
    known = re.findall(r"^([a-z-]+):.*## ", MAKEFILE, re.M) if by_make else [*table.COMMANDS]
    while words and not by_make and words[0] in ("--help", "--version", "help"):
        del words[0]
    if not words or words[0].isupper():  # `make CONFIG=`
        return
    name, *words = words
    if name not in known:
        yield name
        return
    command = table.COMMANDS.get(name)
    settings = declared.read(command.module).settings if command else {}
    for word in words:
        typed, equals, value = word.partition("=")
        if by_make:
            if equals and not re.search(rf"\b{typed}\b", recipe(name)):
                yield word
        elif typed.startswith("--"):
            key = typed[2:].replace("-", "_")
            if not {key, key.removeprefix("no"), *table.KEYS} & {*settings, "help"}:
                yield word
        elif equals and typed.lower() not in {*settings, *table.KEYS}:
            yield word
        if typed.lstrip("-").lower() == "set" and not _is_of_config(value):
            yield word
        setting = settings.get(typed.lstrip("-").lower())
        if setting and setting.choices and value and not {*value.split("|")} <= {*setting.choices}:
            yield word


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_commands_exist_with_their_settings(page):
    found = {shlex.join(words): [*wrong_words(words)] for words in commands(page)}
    assert not {line: words for line, words in found.items() if words}


@pytest.mark.parametrize(
    ("page", "number"),
    [(page, n) for page in PAGES for n, _ in enumerate(blocks(page, "yaml"))],
    ids=lambda one: one.stem if isinstance(one, pathlib.Path) else str(one),
)
def test_configs_have_only_keys_that_exist(page, number):
    """A whole config loads; of a part of one, no key is unknown."""
    tree = yaml.safe_load(blocks(page, "yaml")[number])
    if not {*tree} & {*config.Config.model_fields}:
        tree = {"data": tree}
    is_whole = "name" in tree and "base" not in tree
    tree.pop("base", None)
    try:
        config_file.validate(tree, page.name)
    except errors.UsageError as error:
        assert not is_whole and "unknown key" not in str(error), error


def _imports(tree):
    """Yields modules of ours that code imports, each with the names it takes of them."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module.partition(".")[0] in packages.NAMES:
            yield from ((node.module, alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            names = [
                alias.name for alias in node.names if alias.name.partition(".")[0] in packages.NAMES
            ]
            yield from ((name, "__name__") for name in names)


def _attributes(tree):
    """Yields attributes of imported modules of ours that code uses."""
    imported = {name: module for module, name in _imports(tree)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            name = node.value.id
            if name in imported and importlib.util.find_spec(f"{imported[name]}.{name}"):
                yield f"{imported[name]}.{name}", node.attr


def _exists(module, name):
    return hasattr(importlib.import_module(module), name) or bool(
        importlib.util.find_spec(f"{module}.{name}")
    )


@pytest.mark.heavy
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_code_compiles_and_what_it_imports_exists(page):
    for text in blocks(page, "python"):
        tree = ast.parse(text)
        imported = [*_imports(tree)]
        assert not [pair for pair in imported if not _exists(*pair)]
        assert not [pair for pair in _attributes(tree) if not _exists(*pair)]


def test_the_page_on_the_api_names_functions_of_it():
    text = (ROOT / "docs" / "python.md").read_text()
    named = {*re.findall(r"\bapi\.(\w+)", text)}
    assert {"train", "evaluate"} <= named <= {*vars(api)}


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        ("make trian", ["trian"]),
        ("make train WRKERS=2", ["WRKERS=2"]),
        ("make train CLUSTER=moon", ["CLUSTER=moon"]),
        ("make bench RUN=x", ["RUN=x"]),
        ("estimator-pipeline trian", ["trian"]),
        ("estimator-pipeline train --confg=x", ["--confg=x"]),
        ("estimator-pipeline run --restart=never", ["--restart=never"]),
        ("estimator-pipeline run --workers=1 STEPZ=2", ["STEPZ=2"]),
        ("make train SET='train.steps=5 train.stepz=5'", ["SET=train.steps=5 train.stepz=5"]),
        ("estimator-pipeline train --config=mnist --set=train.steps=1 PROJECT=x", []),
    ],
)
def test_what_does_not_exist_in_a_command_is_found(line, wrong):
    assert [*wrong_words(shlex.split(line))] == wrong

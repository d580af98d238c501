"""What make does with the variables it is given: hands each on as it is, and runs none of them."""

from __future__ import annotations

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

from pipeline.command_line import declared, table
from pipeline.config import reference

ROOT = pathlib.Path(__file__).resolve().parent.parent
TEXT = (ROOT / "Makefile").read_text()
VARIABLES = re.search(r"VARIABLES := ((?:.*\\\n)*.*)", TEXT)[1].replace("\\\n", " ").split()
TARGETS = re.findall(r"^([a-z-]+):.*## ", TEXT, re.M)
# `test` and `lint` run what is no business of a variable; these write to the sources.
RUN = sorted({*TARGETS} - {"test", "test-fast", "test-slow", "lint", "lock", "clean"})
STUB = """#!/bin/sh
exec python3 -c 'import json, os, sys
with open(os.environ["CALLS"], "a") as file: file.write(json.dumps(sys.argv[1:]) + chr(10))' "$@"
"""


# Settings of commands that make has no variable for.
NOT_BY_MAKE = {
    "preprocess": {"RUN", "PIPELINE_OPTIONS"},
    "replay-dead-letter": {"PIPELINE_OPTIONS"},
    "train": {"ISOLATE"},
    "predict": {"PIPELINE_OPTIONS"},
}


class Sandbox:
    """A copy of the Makefile with commands that only note what they were called with."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        self.calls_path = folder / "calls"
        self.ran = folder / "ran"
        self.ran.mkdir()
        shutil.copy(ROOT / "Makefile", folder)
        locks = [p.name for p in ROOT.glob("requirements*.lock")]
        (folder / "docs").mkdir()
        shutil.copy(ROOT / "docs" / "config.md", folder / "docs")
        for name in [*locks, "setup.py", "tests/cloud/requirements.lock"]:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).touch()
        for venv in (".venv", ".venv-gcp"):
            (folder / venv / "bin").mkdir(parents=True)
            for command in ("python", "tensorboard", "ruff", "mypy", "uv"):
                (folder / venv / "bin" / command).write_text(STUB)
                (folder / venv / "bin" / command).chmod(0o755)
            for marker in ("", "-dev", "-gcp", "-test-gcp"):
                (folder / venv / f".installed{marker}").touch()

    def attack(self, name: str) -> str:
        """Returns a value that leaves a file if any part of it is ever run."""
        mark = f"{self.ran}/{name}"
        return (
            f"it's $(shell touch {mark}-make) $(touch {mark}-shell) `touch {mark}-back` ${{HOME}}"
            f" $x $$y\"; touch {mark}-double; ' ; touch {mark}-single; # \\ é && touch {mark}-and"
            f" | touch {mark}-pipe"
        )

    def make(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        base = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        return subprocess.run(
            ["make", *arguments],
            cwd=self.folder,
            env={**base, **variables, "CALLS": str(self.calls_path)},
            capture_output=True,
            text=True,
        )

    @property
    def words(self) -> list[str]:
        """Returns all words that commands were called with, and forgets them."""
        text = self.calls_path.read_text() if self.calls_path.exists() else ""
        self.calls_path.unlink(missing_ok=True)
        return [word for line in text.splitlines() for word in json.loads(line)]


@pytest.fixture
def sandbox(tmp_path):
    return Sandbox(tmp_path)


def _uses(target):
    """Returns the variables that a target hands on, those of COMMON and the like too."""
    text = re.search(rf"^{target}:((?:.*\n)(?:\t.*\n)*)", TEXT, re.M)[1]
    for name in ("COMMON", "CLOUD", "OF_RUN", "OVERRIDES"):
        meaning = re.search(rf"^{name} +=((?:.*\\\n)*.*)", TEXT, re.M)[1]
        text = text.replace(f"$({name})", meaning)
    text = text.replace("$(OVERRIDES)", "$(call given,SET,set)")
    text = text.replace("$(OF_CONFIG)", "$(call given,CONFIG,config)")
    return {*re.findall(r"\(call (?:given|setting|on),([A-Z_]+)[,)]", text)}


# Given as 1, and handed on as a flag without a value.
SWITCHES = {"CUDA", "DRY_RUN", "FOLLOW", "FORCE", "MATRIX", "PAGE", "REPAIR", "SCHEMA"}


@pytest.mark.parametrize("where", ["command line", "environment"])
@pytest.mark.parametrize("target", RUN)
def test_a_variable_is_handed_on_as_it_is_and_never_run(sandbox, target, where):
    wanted = VARIABLES if where == "environment" else _uses(target)
    given = {name: sandbox.attack(name) for name in wanted}
    given.pop("PYTHON", None)  # there must be one
    if where == "environment":
        done = sandbox.make(target, **given)
    else:
        done = sandbox.make(target, *(f"{name}={value}" for name, value in given.items()))
    assert done.returncode == 0, done.stderr
    assert not list(sandbox.ran.iterdir())
    words = sandbox.words
    for name in _uses(target) - SWITCHES:
        escaped = given[name].replace("\\", "\\\\").replace('"', '\\"')
        values = [word.partition("=")[2].partition("=")[2] or word for word in words]
        flags = (f"--{name.lower()}={given[name]}", f'"{escaped}"')
        assert flags[0] in words or flags[1] in values, name


def test_a_python_that_is_named_is_not_run_as_a_command_line(sandbox):
    (sandbox.folder / ".venv" / ".installed").unlink()
    for arguments, variables in (
        ((f"PYTHON={sandbox.attack('PYTHON')}",), {}),
        ((), {"PYTHON": sandbox.attack("PYTHON")}),
    ):
        done = sandbox.make("setup", *arguments, **variables)
        assert done.returncode == 2
        assert "cannot be run; give the path of a Python 3.10 or 3.11" in done.stderr
        assert not list(sandbox.ran.iterdir())


def test_an_environment_that_works_is_installed_into(sandbox):
    """Jobs may be running from it when a lock file gets newer."""
    of_job = sandbox.folder / ".venv" / "lib" / "of_a_job.py"
    of_job.parent.mkdir()
    of_job.touch()
    python = sandbox.folder / ".venv" / "bin" / "python"
    version = "{} {}".format(*sys.version_info[:2])
    python.write_text(f'#!/bin/sh\ncase "$*" in *"import pip"*) echo {version};; esac\n')
    (sandbox.folder / ".venv" / ".installed").unlink()
    done = sandbox.make("setup", f"PYTHON={sys.executable}")
    assert done.returncode == 0, done.stderr
    assert of_job.exists() and python.read_text().startswith("#!/bin/sh")


@pytest.mark.parametrize("port", ["6006; touch {ran}/x", "$(shell touch {ran}/x)"])
def test_a_port_is_one_word(sandbox, port):
    given = port.format(ran=sandbox.ran)
    assert sandbox.make("tensorboard", f"PORT={given}").returncode == 0
    assert sandbox.words == ["-m", "pipeline", "tensorboard", "--storage=output", f"--port={given}"]
    assert not list(sandbox.ran.iterdir())


def test_what_an_installation_is_in_cannot_be_given(sandbox):
    assert sandbox.make("help", f"VENV={sandbox.attack('VENV')}").returncode == 2
    assert sandbox.make("help", VENV=sandbox.attack("VENV")).returncode == 0
    assert not list(sandbox.ran.iterdir())


def test_another_folder_is_refused_with_what_works_there(sandbox, tmp_path):
    elsewhere = sandbox.folder / "elsewhere"
    elsewhere.mkdir()
    done = sandbox.make("-C", str(elsewhere), "-f", f"{sandbox.folder}/Makefile", "doctor")
    assert done.returncode == 2
    assert f"run make in the folder of {sandbox.folder}/Makefile, or with make -C" in done.stderr
    assert "the command estimator-pipeline works in any folder" in done.stderr
    assert sandbox.words == []


def test_a_value_of_two_lines_is_refused(sandbox):
    done = sandbox.make("train", f"STORAGE=a\ntouch {sandbox.ran}/x #")
    assert done.returncode == 2
    assert "STORAGE= must be on one line" in done.stderr
    assert not list(sandbox.ran.iterdir())


@pytest.mark.parametrize(
    ("given", "hint"),
    [
        ("CONFG=flights", " (did you mean CONFIG=?)"),
        ("storage=x", " (did you mean STORAGE=?)"),
        ("QQ=500", ""),
        ("q'q;`>{ran}/x`=1", ""),
    ],
)
def test_a_variable_that_does_not_exist_is_refused(sandbox, given, hint):
    given = given.format(ran=sandbox.ran)
    done = sandbox.make("train", given)
    assert done.returncode == 2
    name = given.partition("=")[0]
    setting = 'Settings of a config are given as SET="train.steps=500"'
    assert f"{name}= does not exist{hint}. {setting}" in done.stderr
    listed = f"{setting}; variables of make are A, B, BASELINE, BUCKET, "
    assert (listed in done.stderr) == (not hint)
    assert not sandbox.words
    assert not list(sandbox.ran.iterdir())


@pytest.mark.parametrize(
    ("given", "setting"),
    [
        ("STEPS=500", 'SET="train.steps=500"'),
        ("steps=500", 'SET="train.steps=500"'),
        ("EPOCH=3", 'SET="train.epochs=3"'),
        ("train.steps=7", 'SET="train.steps=7"'),
        ("LEARNING_RATE=1e-3", 'SET="train.optimizer.learning_rate=1e-3"'),
        (
            "BATCH_SIZE=$(shell touch {ran}/x)",
            'SET="train.batch_size=..." or SET="eval.batch_size=..."',
        ),
        ("SAVE_STEPS=`touch {ran}/x`'", 'SET="train.save_steps=..."'),
    ],
)
def test_a_key_of_the_config_is_named_as_a_setting(sandbox, given, setting):
    done = sandbox.make("train", given.format(ran=sandbox.ran))
    name = given.partition("=")[0]
    said = f"*** {name}= does not exist. Settings of a config are given as {setting}.  Stop."
    assert done.returncode == 2 and said in done.stderr
    assert not sandbox.words and not list(sandbox.ran.iterdir())


def test_the_page_has_the_keys_of_the_models():
    """Make reads them there, because it may have no package to import."""
    page = (ROOT / "docs" / "config.md").read_text().partition("\n## Feature steps")[0]
    rows = re.findall(r"^\| `([a-z0-9_.]+)` \| ([^|]*)", page, re.M)
    assert {key for key, kind in rows if "section" not in kind} == set(reference.list_keys())


@pytest.mark.parametrize("target", ["schema", "config", "data"])
def test_storage_may_be_given_to_all_targets(sandbox, target):
    done = sandbox.make(target, "STORAGE=out", "DATA=x" if target == "schema" else "CONFIG=flights")
    assert done.returncode == 0, done.stderr
    assert sandbox.words and "out" not in str(sandbox.words)


def _refused(sandbox, *arguments):
    """Returns the name that is refused, the targets it would be for, and what these take."""
    done = sandbox.make(*arguments)
    assert done.returncode == 2, arguments
    assert not sandbox.words
    found = re.search(
        r"\*\*\* (\w+)= does not exist for ([a-z, -]+), only for ([a-z, -]+); it must be one of"
        r" ([A-Z_, ]+)\.  Stop\.",
        done.stderr,
    )
    assert found and len(done.stderr.splitlines()) == 1, done.stderr
    return found[1], found[2], found[3].split(", "), set(found[4].split(", "))


@pytest.mark.parametrize("target", [target for target in TARGETS if target in table.COMMANDS])
def test_a_target_takes_what_its_command_takes(sandbox, target):
    """Of the others, each is refused, with the targets that take it."""
    declared_settings = set(declared.read(table.COMMANDS[target].module).settings)
    wanted = {"PYTHON", *(name.upper() for name in declared_settings)}
    other = next(name for name in ("INPUT", "DATA") if name not in wanted)
    name, of, takers, taken = _refused(sandbox, target, f"{other}=x")
    assert (name, of) == (other, target)
    assert takers == (["predict"] if other == "INPUT" else ["schema"])
    keys = {key.upper() for key in table.KEYS}
    assert taken - keys == wanted - keys - NOT_BY_MAKE.get(target, set())


@pytest.mark.parametrize("target", sorted({*TARGETS} - {*table.COMMANDS}))
def test_targets_that_are_no_commands_refuse_too(sandbox, target):
    assert _refused(sandbox, target, "INPUT=x")[:3] == ("INPUT", target, ["predict"])


@pytest.mark.parametrize(
    "goal, hint", [("trian", " (did you mean make train?)"), ("nothing/like-it", "")]
)
def test_a_target_that_does_not_exist_is_refused(sandbox, goal, hint):
    done = sandbox.make(goal)
    assert done.returncode == 2 and not sandbox.words
    assert done.stderr.splitlines()[0] == (
        f"error: there is no target {goal}{hint}; make help lists them"
    )


def test_a_target_that_does_not_exist_is_not_run_by_a_shell(sandbox):
    sandbox.make(f"x; touch {sandbox.ran}/shell", f"$(shell touch {sandbox.ran}/make)")
    assert not list(sandbox.ran.iterdir())


@pytest.mark.parametrize("target", ["chaos", "compare", "drift", "plan", "schema", "tune"])
def test_what_is_missing_is_reported_before_anything_is_installed(sandbox, target):
    shutil.rmtree(sandbox.folder / ".venv")
    done = sandbox.make(target)
    assert done.returncode == 2 and done.stderr.startswith("error: name ")
    assert not done.stdout and not (sandbox.folder / ".venv").exists()


def test_several_targets_take_what_one_of_them_does(sandbox):
    done = sandbox.make("preprocess", "train", "CONFIG=flights", "FORCE=1", "WORKERS=2")
    assert done.returncode == 0, done.stderr
    assert "--force" in sandbox.words
    assert _refused(sandbox, "preprocess", "train", "INPUT=x")[:2] == ("INPUT", "preprocess, train")


def test_variables_of_the_environment_are_for_whom_takes_them(sandbox):
    done = sandbox.make("evaluate", "RUN=a", INPUT="rows.csv", LABEL="x", MAKEFLAGS="-s")
    assert done.returncode == 0, done.stderr
    assert "--run=a" in sandbox.words


def test_variables_are_all_that_the_makefile_uses():
    used = set(re.findall(r"\$\(call (?:given|setting|on),([A-Z_]+)", TEXT))
    used |= set(re.findall(r"\$\(or \$\(([A-Z_]+)\),", TEXT)) | {"CLUSTER", "PYTHON"}
    assert used == set(VARIABLES)


def test_other_variables_of_the_environment_are_left_alone(sandbox):
    done = sandbox.make("status", CONFG="x", SHELL="/bin/false", VENV="elsewhere")
    assert done.returncode == 0, done.stderr
    assert sandbox.words == ["-m", "pipeline", "status", "--storage=output"]

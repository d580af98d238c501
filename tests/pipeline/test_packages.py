"""A package of the user's own that is called as one of ours, first on the path."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import zipfile

import pytest

from tests.pipeline.process_help import ROOT, child_environment

pytestmark = pytest.mark.heavy
EMPTY = {"trainer/__init__.py": "", "trainer/vectors.py": "SIZE = 3\n"}


@pytest.fixture
def python(tmp_path):
    """Runs Python in the folder of a project that has `files`, before ours on the path as where a
    wheel is installed. Without .pth files: one of an editable install finds ours, too."""

    paths = [str(tmp_path), str(ROOT), sysconfig.get_path("purelib")]

    def run(files, *arguments):
        for name, text in files.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text)
        return subprocess.run(
            [sys.executable, "-S", *arguments],
            cwd=tmp_path,
            env={**child_environment(), "PYTHONPATH": os.pathsep.join(paths)},
            capture_output=True,
            text=True,
            timeout=120,
        )

    return run


@pytest.mark.parametrize("command", ["evaluate", "ledger", "replay", "migrate", "compare"])
def test_commands_are_ours(python, command):
    a_and_b = ["--a=x", "--b=y"] if command == "compare" else ["--run=x"]
    done = python(EMPTY, "-m", "pipeline", command, *a_and_b)
    assert done.returncode == 64 and done.stderr.startswith("error: "), done.stderr
    assert done.stderr.count("\n") == 1, done.stderr


@pytest.mark.parametrize("arguments", [["evaluate", "--help"], ["completion", "bash"]])
def test_what_commands_say_of_themselves_is_ours(python, arguments):
    done = python(EMPTY, "-m", "pipeline", *arguments)
    assert (done.returncode, done.stderr) == (0, "") and "--slices" in done.stdout


def test_a_process_that_runs_a_module_runs_ours(python):
    done = python(EMPTY, "-m", "pipeline.run_module", "trainer.ledger_report", "--run=x")
    assert done.returncode == 64 and done.stderr.startswith("error: "), done.stderr


@pytest.mark.parametrize("package", ["preprocessing", "serving", "trainer"])
@pytest.mark.parametrize("init", [{"__init__.py": ""}, {}])
def test_modules_are_found_in_both(python, package, init):
    files = {f"{package}/vectors.py": "SIZE = 3\n"}
    files |= {f"{package}/{name}": text for name, text in init.items()}
    code = f"import pipeline, {package}.vectors as own, {package} as ours; print(ours.__doc__)"
    done = python(files, "-c", code)
    assert (done.returncode, done.stderr) == (0, "") and done.stdout != "None\n"


def test_the_current_folder_counts_where_it_is_not_on_the_path(tmp_path):
    """The installed command finds it by itself."""
    (tmp_path / "trainer").mkdir()
    (tmp_path / "trainer/vectors.py").write_text("SIZE = 3\n")
    code = (
        "import sys; sys.path.remove(''); from pipeline import __main__\n"
        "sys.argv = ['x', 'evaluate', '--help']; __main__.main()\n"
        "import trainer.vectors"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=child_environment(),
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_wheel_that_a_process_fetches_has_modules_in_a_package_of_ours(python, tmp_path):
    with zipfile.ZipFile(tmp_path / "own-1-py3-none-any.whl", "w") as wheel:
        wheel.writestr("trainer/__init__.py", "")
        wheel.writestr("trainer/vectors.py", "SIZE = 3\n")
    code = (
        "import trainer; from pipeline.runs import own_package\n"
        "own_package.provide({own_package.VARIABLE: 'own-1-py3-none-any.whl'})\n"
        "from trainer import run, vectors"
    )
    done = python({}, "-c", code)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("file", "name", "message"),
    [
        (
            "trainer/roles.py",
            "trainer.roles",
            "trainer.roles is '{ours}/trainer/roles.py', a module of this project, and hides "
            "'{folder}/trainer/roles.py'; give the one of your own another name",
        ),
        (
            "trainer/models/dcn.py",
            "trainer.models.dcn",
            "trainer.models.dcn is '{ours}/trainer/models/dcn.py', a module of this project, and "
            "hides '{folder}/trainer/models/dcn.py'; give",
        ),
        (
            "trainer/models/mine.py",
            "trainer.models.mine",
            "no module 'trainer.models.mine': trainer.models is "
            "'{ours}/trainer/models/__init__.py', a module of this project; if you meant a module "
            "of your own, give that another name",
        ),
        (
            "trainer/roles/mine.py",
            "trainer.roles.mine",
            "no module 'trainer.roles.mine': trainer.roles is '{ours}/trainer/roles.py', a module",
        ),
        (
            "other.py",
            "trainer.roles",
            "trainer.roles has no 'model_fn': trainer.roles is '{ours}/trainer/roles.py', a module",
        ),
        (
            "pipeline.py",
            "pipeline.mine",
            "no module 'pipeline.mine': pipeline is '{ours}/pipeline/__init__.py', a module of",
        ),
        ("trainer/__init__.py", "trainer", "trainer is '{ours}/trainer/__init__.py', a module of"),
    ],
)
def test_a_clash_is_named(python, tmp_path, file, name, message):
    code = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r}); import pipeline; del sys.path[0]\n"
        "from pipeline import packages\n"
        f"try: packages.import_module({name!r}, 'model_fn')\n"
        "except packages.Clash as error: print(error)"
    )
    done = python({file: "def model_fn(): pass\n"}, "-c", code)
    assert done.stdout.startswith(message.format(ours=ROOT, folder=tmp_path)), done


def test_every_key_that_names_a_module_names_a_clash(python):
    """Each in its own words; see `test_a_clash_is_named`."""
    code = """
from pipeline import errors, steps
from preprocessing import sources
from preprocessing.sources import generate
from trainer import models
for call in (
    lambda: models.load_attribute("trainer.roles:x", "model.name"),
    lambda: steps.find("trainer.roles:x"),
    lambda: sources.choose(type("Data", (), {"source": "trainer.roles:x"})),
    lambda: generate._load("trainer.roles:x"),
):
    try: call()
    except errors.UsageError as error: print(error)
"""
    done = python({"trainer/roles.py": "x = 1\n"}, "-c", code)
    begins = (
        "model.name 'trainer.roles:x': trainer.roles is '",
        "step 'trainer.roles:x': trainer.roles is '",
        "data.source: cannot load 'trainer.roles:x': trainer.roles is '",
        "data.generate.function: cannot load 'trainer.roles:x': trainer.roles is '",
    )
    lines = done.stdout.splitlines()
    assert len(lines) == len(begins), done
    assert all(line.startswith(begin) for line, begin in zip(lines, begins, strict=True)), lines
    assert all(line.endswith("give the one of your own another name") for line in lines)


def test_the_version_of_ones_own_code_is_of_that_alone(python):
    code = (
        "import types; from pipeline.config import own_code; from pipeline import config\n"
        "from pipeline.config import config_file\n"
        "job = config_file.load('mnist', ['model.name=trainer.vectors:model_fn'])\n"
        "print(own_code.version(job), *own_code._list_folders('trainer'))"
    )
    done = python(EMPTY, "-c", code)
    assert done.stderr == "", done.stderr
    version, *folders = done.stdout.split()
    assert len(folders) == 2 and ROOT.as_posix() not in folders[0]
    same = python({**EMPTY, "other.py": ""}, "-c", code)
    changed = python({**EMPTY, "trainer/vectors.py": "SIZE = 4\n"}, "-c", code)
    assert same.stdout.split()[0] == version != changed.stdout.split()[0]

"""A wheel with the user's own modules, checked before it is paid for and imported from."""

import subprocess
import sys
import zipfile

import pytest

from pipeline import errors
from pipeline.runs import own_package
from tests.pipeline.process_help import ROOT, child_environment

MODULE = "mine/models.py"


def wheel(folder, *requires, name="mine-1.0-py3-none-any.whl"):
    path = folder / name
    with zipfile.ZipFile(path, "w") as file:
        file.writestr(MODULE, "def net():\n    return 7\n")
        needs = "".join(f"Requires-Dist: {one}\n" for one in requires)
        about = f"Metadata-Version: 2.1\nName: mine\n{needs}\nRequires-Dist: in the text\n"
        file.writestr("mine-1.0.dist-info/METADATA", about)
    return str(path)


def test_what_it_has_and_needs_is_known_before(tmp_path):
    path = wheel(tmp_path, "NumPy>=1", "absl_py", 'pytest; extra == "dev"')
    own_package.check(path, ["mine.models"], ["numpy", "absl-py"])


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"requires": ("torch>=2",)}, "needs torch, which the image does not have"),
        ({"module": "mine.nets"}, "has no module 'mine.nets'"),
        ({"name": "mine-1.0-cp311-cp311-linux_x86_64.whl"}, "must be a wheel of pure Python"),
        ({"content": b"rubbish"}, "is not a wheel"),
        ({"content": None}, "not found; upload the wheel"),
    ],
)
def test_what_could_not_be_imported_there_is_refused(tmp_path, how, words):
    name = how.get("name", "mine-1.0-py3-none-any.whl")
    path = wheel(tmp_path, *how.get("requires", ()), name=name)
    if "content" in how:
        (tmp_path / name).unlink()
    if how.get("content"):
        (tmp_path / name).write_bytes(how["content"])
    with pytest.raises(errors.UsageError, match=words):
        own_package.check(path, [how.get("module", "mine.models")], ["numpy"])


def test_a_process_imports_from_it_and_leaves_nothing(tmp_path):
    code = (
        "import os; from pipeline.runs import own_package; own_package.provide(os.environ);"
        "from mine import models; print(models.net(), models.__file__)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={
            **child_environment(),
            own_package.VARIABLE: wheel(tmp_path),
            "TMPDIR": str(tmp_path),
        },
        capture_output=True,
        text=True,
    )
    assert done.stdout.startswith(f"7 {tmp_path}/estimator-pipeline-package-"), done.stderr
    assert [path.suffix for path in tmp_path.iterdir()] == [".whl"]

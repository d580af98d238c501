"""A virtual environment for each peer, below the storage, made when it is first needed.

What it gets is pinned in `requirements/<name>.txt`, and in `requirements/<name>.no-deps.txt` what
is installed without the packages that it asks for. `requirements/<name>.constraints.txt` pins what
these ask for where pip would look for versions for long. A change makes another environment.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import pathlib
import shutil
import subprocess
import sys

REQUIREMENTS = pathlib.Path(__file__).parent / "requirements"
# The project's own, whose lock file names what the programs of TensorFlow use.
OWN, _OF_OWN = "own", ("tensorflow", "apache-beam")
_VERSIONS = (
    "import importlib.metadata, json, sys; "
    "print(json.dumps({n: importlib.metadata.version(n) for n in sys.argv[1:]}))"
)


class PeerError(Exception):
    """A peer that cannot be installed or run; the text says why."""


@dataclasses.dataclass(frozen=True)
class Environment:
    """A Python to run programs with."""

    python: str
    packages: tuple[str, ...]

    def versions(self) -> dict[str, str]:
        """Returns the versions of what the requirements name."""
        command = [self.python, "-c", _VERSIONS, *self.packages]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        found: dict[str, str] = json.loads(done.stdout)
        return found


def make(name: str, root: pathlib.Path) -> Environment:
    """Returns the environment, installed. Raises `PeerError` if it cannot be."""
    if name == OWN:
        return Environment(sys.executable, _OF_OWN)
    files = [
        path for path in (_locate_file(name), _locate_file(f"{name}.no-deps")) if path.exists()
    ]
    if not files:
        raise ValueError(f"{_locate_file(name)} does not exist")
    constraints = _locate_file(f"{name}.constraints")
    pinned = ["-c", str(constraints)] if constraints.exists() else []
    content = b"".join(path.read_bytes() for path in files)
    digest = hashlib.sha256(content + (constraints.read_bytes() if pinned else b""))
    folder = root / f"{name}-{digest.hexdigest()[:8]}"
    packages = tuple(line.partition("==")[0] for line in content.decode().split())
    found = Environment(str(folder / "bin" / "python"), packages)
    if not (folder / "installed").exists():
        print(f"installing {', '.join(content.decode().split())}", flush=True)
        shutil.rmtree(folder, ignore_errors=True)
        _run([sys.executable, "-m", "venv", str(folder)])
        for path in files:
            flags = ["--no-deps"] if path.stem.endswith(".no-deps") else []
            pip = [found.python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
            _run([*pip, "--progress-bar=off", *flags, *pinned, "-r", str(path)])
        (folder / "installed").touch()
    return found


def _locate_file(name: str) -> pathlib.Path:
    return REQUIREMENTS / f"{name}.txt"


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        wrong = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
        raise PeerError((wrong or done.stderr.splitlines() or ["pip failed"])[0])

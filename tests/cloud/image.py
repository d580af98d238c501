"""The image of the `Dockerfile` as far as it goes without a builder: its files and variables."""

from __future__ import annotations

import dataclasses
import fnmatch
import pathlib
import re
import shutil

from tests.pipeline.process_help import ROOT


@dataclasses.dataclass(frozen=True)
class Image:
    """What the steps come to, in a folder that stands for the root of the image."""

    root: pathlib.Path
    work: pathlib.Path
    environment: dict[str, str]
    user: str
    entrypoint: list[str]


def build(root: pathlib.Path, target: str = "trainer") -> Image:
    """Goes through the steps of the Dockerfile up to a target, without what the base image and pip
    bring.

    Raises `AssertionError` for a step that it does not know.
    """
    work, user, entrypoint = root, "root", []
    environment: dict[str, str] = {}
    arguments: dict[str, str] = {}
    for step, rest in _read_target(target):
        for name, value in arguments.items():
            rest = rest.replace(f"${{{name}}}", value)
        if step == "ENV":
            environment |= dict(re.findall(r"(\w+)=(\S+)", rest))
        elif step == "ARG":
            arguments |= dict([rest.split("=")])
        elif step == "WORKDIR":
            work = root / rest.lstrip("/")
            work.mkdir(parents=True)
        elif step == "COPY" and not rest.startswith("--from="):
            source, target = rest.split()
            _copy(source, work / target)
        elif step == "USER":
            user = rest
        elif step == "ENTRYPOINT":
            entrypoint = re.findall(r'"([^"]+)"', rest)
        else:
            assert step in ("FROM", "RUN", "COPY"), step
    inside = {name: re.sub("^/", f"{root}/", value) for name, value in environment.items()}
    return Image(root, work, inside, user, entrypoint)


def _read_target(target: str) -> list[tuple[str, str]]:
    """Returns the steps of a target and of what it is built from."""
    stages: dict[str, list[tuple[str, str]]] = {"": []}
    name = ""
    for step, rest in _steps():
        if step == "FROM":
            above, _, name = rest.partition(" AS ")
            stages[name] = [*stages.get(above, ())]
        stages[name].append((step, rest))
    return stages[target]


def _steps() -> list[tuple[str, str]]:
    lines = [line for line in (ROOT / "Dockerfile").read_text().splitlines() if line[:1] != "#"]
    joined = "\n".join(lines).replace("\\\n", " ")
    return [(line.split()[0], line.partition(" ")[2]) for line in joined.splitlines() if line]


def _copy(source: str, target: pathlib.Path) -> None:
    rules = (ROOT / ".dockerignore").read_text().split()
    assert rules[0] == "*" and f"!{source}" in rules, f"{source} is not in the context"
    left_out = [rule.removeprefix("**/") for rule in rules[1:] if not rule.startswith("!")]

    def ignore(_: str, names: list[str]) -> list[str]:
        return [name for name in names for rule in left_out if fnmatch.fnmatch(name, rule)]

    if (ROOT / source).is_dir():
        shutil.copytree(ROOT / source, target, ignore=ignore)
    else:
        shutil.copy(ROOT / source, target)

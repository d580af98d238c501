"""Builds the images of the `Dockerfile` and pushes them: with docker, podman or Cloud Build.

Base images are named by digest. Those are in `images.lock` of the checkout; what is missing there
is looked up in the registry.
"""

from __future__ import annotations

import dataclasses
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence

from pipeline import errors
from pipeline.config import config_file
from pipeline.launchers import image
from pipeline.launchers.image_registry import Registry

ROOT = config_file.SHIPPED.parent
LOCK = "images.lock"
TARGETS = ("trainer", "preprocessor")
BUILDERS = ("docker", "podman", "gcloud")
_PYTHON = ".".join(map(str, image.PYTHON))
_BASES = {
    "PYTHON_IMAGE": f"python:{_PYTHON}-slim",
    "BEAM_IMAGE": f"apache/beam_python{_PYTHON}_sdk:{{beam}}",
}
_NAME = re.compile(
    r"[a-z0-9][a-z0-9.-]*(:[0-9]+)?(/[a-z0-9._-]+)+:[A-Za-z0-9_][A-Za-z0-9._-]{0,127}"
)
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


@dataclasses.dataclass(frozen=True)
class ImageBuild:
    """What to build: `name` with registry and tag, for GPUs too if `cuda`, from `root`."""

    name: str
    cuda: bool = False
    root: pathlib.Path = ROOT
    say: Callable[[str], None] = print
    registry: Registry = dataclasses.field(default_factory=Registry)

    def image(self, target: str) -> str:
        """Returns the name of the image of a target."""
        path, _, tag = self.name.rpartition(":")
        return self.name if target == TARGETS[0] else f"{path}-{target}:{tag}"

    def arguments(self, bases: Mapping[str, str]) -> dict[str, str]:
        """Returns the arguments of the Dockerfile."""
        return {**bases, **({"CUDA": "1"} if self.cuda else {})}


def run(build: ImageBuild, builder: str = "") -> dict[str, str]:
    """Builds and pushes both images; returns `name@digest` of each target.

    Without a `builder` it is the first that is installed. Raises `UsageError` for a bad name, no
    builder, or base images whose digest is not known; `RetryableError` with the last line of a
    builder that fails.
    """
    if not _NAME.fullmatch(build.name):
        raise errors.UsageError(
            f"IMAGE={build.name}: must be a registry, a path and a tag, such as "
            "europe-west4-docker.pkg.dev/my-project/images/estimator-pipeline:1"
        )
    if config_file.IS_WHEEL:
        raise errors.UsageError("image: images are built from a checkout; clone the repository")
    chosen = _choose_builder(builder)
    if chosen == "gcloud":
        return _build_with_cloud_build(build)
    bases = _pin_bases(build, lambda name: _pull(chosen, name))
    return {target: _build_with_docker(build, chosen, target, bases=bases) for target in TARGETS}


def _choose_builder(wanted: str) -> str:
    there = [name for name in BUILDERS if shutil.which(name)]
    if wanted and wanted not in there:
        raise errors.UsageError(f"BUILDER={wanted}: is not installed; known: {', '.join(BUILDERS)}")
    if not there:
        raise errors.UsageError(
            "image: needs docker, podman or gcloud (for Cloud Build); none is installed here"
        )
    return wanted or there[0]


def base_names(root: pathlib.Path) -> dict[str, str]:
    """Returns the base images by the argument of the Dockerfile that names them, with tags."""
    locked = (root / "requirements.lock").read_text()
    (beam,) = re.findall(r"^apache-beam==(\S+)", locked, re.MULTILINE)
    return {argument: name.format(beam=beam) for argument, name in _BASES.items()}


def _pin_bases(build: ImageBuild, find: Callable[[str], str]) -> dict[str, str]:
    """Returns the base images by digest; adds those that `find` has to look up to the lock file."""
    path = build.root / LOCK
    lines = path.read_text().split() if path.exists() else []
    known = dict(line.rsplit("@", 1) for line in lines)
    names = base_names(build.root)
    missing = [name for name in names.values() if name not in known]
    for name in missing:
        known[name] = find(name)
    if missing:
        content = [f"{name}@{known[name]}\n" for name in names.values()]
        path.write_text("".join(content))
        build.say(f"{LOCK}: now has {', '.join(missing)} by digest; commit it")
    return {argument: f"{name}@{known[name]}" for argument, name in names.items()}


def _pull(builder: str, name: str) -> str:
    _call([builder, "pull", name])
    form = "--format={{range .RepoDigests}}{{println .}}{{end}}"
    found = _DIGEST.search(_call([builder, "image", "inspect", form, name]))
    if found is None:
        raise errors.RetryableError(f"{builder} does not say which digest {name} has")
    return found[0]


def _build_with_docker(
    build: ImageBuild, builder: str, target: str, *, bases: Mapping[str, str]
) -> str:
    made = build.image(target)
    given = [f"--build-arg={k}={v}" for k, v in build.arguments(bases).items()]
    build.say(f"building {made}")
    _call([builder, "build", f"--target={target}", *given, f"--tag={made}", str(build.root)])
    build.say(f"pushing {made}")
    _call([builder, "push", made])
    form = "--format={{range .RepoDigests}}{{println .}}{{end}}"
    path = made.rpartition(":")[0]
    for line in _call([builder, "image", "inspect", form, made]).split():
        if line.startswith(f"{path}@") and _DIGEST.search(line):
            return line
    raise errors.RetryableError(f"{builder} does not say which digest {made} has in its registry")


def _fetch_digest(registry: Registry, name: str) -> str:
    try:
        return registry.digest(name)
    except (OSError, ValueError, KeyError) as error:
        raise errors.UsageError(
            f"{LOCK}: has no digest of {name}, and Docker Hub does not give it: {error}. Add a "
            f"line {name}@sha256:… (docker buildx imagetools inspect {name} and the page of its "
            "registry show it), or run make image where docker or podman is"
        ) from None


def _build_with_cloud_build(build: ImageBuild) -> dict[str, str]:
    bases = _pin_bases(build, lambda name: _fetch_digest(build.registry, name))
    given = [f"--build-arg={k}={v}" for k, v in build.arguments(bases).items()]
    names = {target: build.image(target) for target in TARGETS}
    steps = [
        {
            "name": "gcr.io/cloud-builders/docker",
            "args": ["build", f"--target={target}", *given, f"--tag={name}", "."],
        }
        for target, name in names.items()
    ]
    job = {"steps": steps, "images": [*names.values()], "timeout": "3600s"}
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(job, file)
        file.flush()
        build.say(f"Cloud Build: building {' and '.join(names.values())}")
        command = ["gcloud", "builds", "submit", str(build.root), f"--config={file.name}"]
        said = _call([*command, "--format=json(results.images)", "--suppress-logs"])
    found = {one["name"]: one["digest"] for one in json.loads(said)["results"]["images"]}
    return {t: f"{n.rpartition(':')[0]}@{found[n]}" for t, n in names.items()}


def _call(command: Sequence[str]) -> str:
    """Returns what a builder prints; its progress goes to the terminal."""
    last = "it says nothing"
    with (
        tempfile.TemporaryFile("w+") as printed,
        subprocess.Popen(command, stdout=printed, stderr=subprocess.PIPE, text=True) as process,
    ):
        for line in process.stderr or ():
            sys.stderr.write(line)
            last = line.strip() or last
        if process.wait():
            raise errors.RetryableError(f"{' '.join(command[:2])} failed: {last}")
        printed.seek(0)
        return printed.read()

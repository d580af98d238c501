"""A wheel with modules of the user's own, which a process fetches before it imports them.

It is unpacked and not installed: what it needs must be there, and the process may have no rights to
install anything.
"""

from __future__ import annotations

import io
import re
import sys
import zipfile
from collections.abc import Mapping, Sequence

from pipeline import errors, packages, storage
from pipeline.storage import scratch

# Set by a place to the path of the wheel.
VARIABLE = "PIPELINE_PACKAGE"
_PURE = "-none-any.whl"
# A requirement of a wheel's METADATA, and what makes it one of an extra.
_REQUIRES = re.compile(r"^Requires-Dist:\s*([A-Za-z0-9._-]+)(.*)$", re.MULTILINE)


def provide(environment: Mapping[str, str]) -> None:
    """Makes the modules of the wheel that `environment` names importable, if it names one. Raises
    `UsageError` for a file that is not a wheel."""
    path = environment.get(VARIABLE)
    if not path:
        return
    folder = scratch.make("package")
    with _open(path) as wheel:
        wheel.extractall(folder)
    sys.path.insert(0, folder)
    packages.look_again()


def check(path: str, modules: Sequence[str], installed: Sequence[str]) -> None:
    """Raises `UsageError` if processes could not import `modules` from the wheel at `path` where
    packages of the names `installed` are."""
    if not path.endswith(_PURE):
        raise errors.UsageError(
            f"gcp.package {path!r}: must be a wheel of pure Python, …{_PURE}; for others build an "
            "image with them"
        )
    with _open(path) as wheel:
        names = wheel.namelist()
        about = [name for name in names if name.endswith(".dist-info/METADATA")]
        needs = [need for name in about for need in _needs(wheel.read(name).decode())]
    for module in modules:
        file = module.replace(".", "/")
        if not {f"{file}.py", f"{file}/__init__.py"} & {*names}:
            raise errors.UsageError(f"gcp.package {path!r}: has no module {module!r}")
    known = {_normalize(name) for name in installed}
    missing = [name for name in needs if _normalize(name) not in known]
    if missing:
        raise errors.UsageError(
            f"gcp.package {path!r}: needs {', '.join(missing)}, which the image does not have. "
            "Build an image with it, and name its modules in gcp.image_modules"
        )


def _open(path: str) -> zipfile.ZipFile:
    try:
        with storage.open_file(path) as file:
            return zipfile.ZipFile(io.BytesIO(file.read()))
    except FileNotFoundError:
        raise errors.UsageError(f"gcp.package {path!r}: not found; upload the wheel") from None
    except zipfile.BadZipFile:
        raise errors.UsageError(f"gcp.package {path!r}: is not a wheel (.whl)") from None


def _needs(metadata: str) -> list[str]:
    head = metadata.partition("\n\n")[0]
    return [name for name, rest in _REQUIRES.findall(head) if "extra ==" not in rest]


def _normalize(name: str) -> str:
    """Returns the name of a package as package indexes compare it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()

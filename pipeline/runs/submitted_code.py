"""The code that a job was submitted with, for processes that come with their own.

An image may have been built before the last change, and a wheel too: processes would train with
other code than what the user looks at, or not understand the config.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from pipeline import errors, versions
from pipeline.config import Config, own_code

# {"pipeline": version of this project, module of the user's own: that of its file}
VARIABLE = "PIPELINE_CODE"
_OURS = "pipeline"


def variable(config: Config) -> str:
    """Returns the value of the variable for a job that is submitted here. Modules that are not
    here are left out."""
    return json.dumps({_OURS: versions.code_version(), **own_code.files(own_code.modules(config))})


def require(environment: Mapping[str, str]) -> None:
    """Raises `UsageError` if this process has other code than that which its job was submitted
    with; whether it has the user's modules at all is found when they are imported."""
    known: dict[str, str] = json.loads(environment.get(VARIABLE) or "{}")
    if not known:
        return
    here = {_OURS: versions.code_version(), **own_code.files([*known])}
    for name, version in known.items():
        if here.get(name, version) == version:
            continue
        what = "the pipeline" if name == _OURS else f"module {name}"
        fix = "" if name == _OURS else ", or the wheel of gcp.package"
        raise errors.UsageError(
            f"{what}: its code is {here[name]} here, and was {version} where the job was "
            f"submitted. Build the image again with make image{fix}, and submit with it; or submit "
            "from the checkout that it was built from"
        )

"""Which modules of the user's own a config names, as `package.module:attribute`."""

from __future__ import annotations

from pipeline.config import Config, own_input

_PROJECT = "pipeline"


def modules(job: Config, *, preprocessing: bool = False) -> list[str]:
    """Returns the modules that training imports, or `preprocessing`; sorted, each once."""
    if preprocessing:
        module, colon, _ = job.data.source.partition(":")
        return [module] if colon else []
    network = str(job.model.params.get("network", ""))
    named = [job.data.input_fn, job.data.serving_input_fn, job.model.name, network]
    texts = [text for text in (*named, *job.train.hooks) if text and text != own_input.OF_SCRIPT]
    found = {module for module, colon, _ in (text.partition(":") for text in texts) if colon}
    steps = (step for feature in job.features.values() for step in feature.steps)
    found |= {type(step).__module__ for step in steps}
    return sorted(name for name in found if name.partition(".")[0] != _PROJECT)

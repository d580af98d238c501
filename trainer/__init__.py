"""The training stage: an Estimator on records, on any topology."""

from __future__ import annotations

import pkgutil

# A team's own package of this name, later on the path, stays importable.
__path__ = pkgutil.extend_path(__path__, __name__)

from trainer.run_estimator import run

__all__ = ["run"]

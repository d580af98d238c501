"""Runs a module as `python -m` does, also where the current folder has a package of its name.

    python -m pipeline.run_module trainer.task --config=mnist

For commands that are started as processes: `python -m trainer.task` would look for the module in a
package of the user's own that is called `trainer`.
"""

from __future__ import annotations

import runpy
import sys

if __name__ == "__main__":
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)

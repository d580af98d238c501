"""What joins the two stages: configs, contracts between them, storage, and every process."""

from pipeline import packages
from pipeline.processes import beginning

# Imports may take seconds: a command looks at the clock before them.
COMMAND_BEGAN = beginning.estimate()
packages.find_ours_first()

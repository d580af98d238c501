"""What joins the two stages: configs, contracts between them, storage, and every process."""

from pipeline import packages

packages.find_ours_first()

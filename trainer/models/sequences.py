"""Where docs/models.md promises to users what is in `trainer.features.sequences`."""

from trainer.features.sequences import add_positions, look_up

looked_up = look_up
positioned = add_positions

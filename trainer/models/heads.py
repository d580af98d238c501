"""Where docs/models.md promises to users what is in `trainer.heads.heads`."""

from trainer.heads.heads import export_outputs as export_outputs

"""Where docs/models.md promises to users what is in `trainer.features.sequences`."""

from trainer.features.sequences import looked_up as looked_up
from trainer.features.sequences import positioned as positioned

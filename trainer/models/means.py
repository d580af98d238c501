"""Where docs/models.md promises to users what is in `trainer.heads.means`."""

from trainer.heads.means import LOSS as LOSS
from trainer.heads.means import of_batches as of_batches

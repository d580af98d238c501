"""Reading alone: shuffled, batched, as a model takes it; and again after a kill."""

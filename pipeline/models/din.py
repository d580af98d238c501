"""`din`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import pydantic

from pipeline.models.base import Layers
from pipeline.sections import Positive


class Din(Layers):
    """A network of fully connected layers over all features, of which those with `embedding:
    {sequence: true}` become one vector each. It needs `features`, of which one is a sequence."""

    names = ("din",)
    of_features = True
    sequences = True

    reduction: Literal["attention", "mean", "last", "gru"] = "attention"
    """What becomes of the vectors of a sequence. `attention`: their sum, each times what a small
    network makes of it and the candidate, the feature that `embedding.table` names. `mean`; `last`,
    the vector of the last item; `gru`, the last state of a recurrent layer. An empty list gives
    zeros."""
    attention_units: Annotated[tuple[Positive, ...], pydantic.Field(min_length=1)] = (36,)
    """Units of each hidden layer of that small network. Only for `attention`."""

    @pydantic.model_validator(mode="after")
    def _check_attention(self) -> Din:
        units = type(self).model_fields["attention_units"].default
        if self.reduction != "attention" and self.attention_units != units:
            raise ValueError(f"attention_units are for reduction: attention, not {self.reduction}")
        return self

    def item_width(self, size: int) -> int:
        """The vector, and what stands next to each other for `attention`, or the gates of `gru`."""
        return size * {"attention": 1 + 4, "gru": 1 + 3}.get(self.reduction, 1)

    def check(self, job: Any) -> None:
        """Raises `ValueError` without a sequence, or for one without a candidate."""
        found = [name for name, feature in job.features.items() if feature.sequence]
        if not found:
            raise ValueError(
                "model.name: din is for sequences, and no feature is one; write embedding: "
                "{sequence: true} for a list of ids, or use dnn or dcn"
            )
        if self.reduction == "attention":
            for name in found:
                _check_candidate(name, job.features, job.data.columns)


def _check_candidate(name: str, features: Mapping[str, Any], columns: Mapping[str, Any]) -> None:
    """What the items are compared with is the feature whose table they use."""
    key, embedding = f"features.{name}.embedding", features[name].embedding
    candidate = getattr(embedding, "table", None)
    if candidate is None:
        raise ValueError(
            f"{key}: din compares the items with a candidate from the same table, and table is not "
            "set; write table: item, say, for the feature item, or model.params.reduction: mean"
        )
    feature = features[candidate]
    several = any(step.ids_of_each > 1 for step in feature.steps)
    if several or any(c in columns and columns[c].list for c in feature.inputs(candidate)):
        raise ValueError(
            f"{key}.table: din compares the items with one id, and {candidate!r} has several per "
            "row; name a feature of one, or write model.params.reduction: mean"
        )

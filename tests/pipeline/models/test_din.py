"""What `model.params` of `din` may say."""

from __future__ import annotations

import pytest

from pipeline.models.din import Din


def test_units_of_the_attention_are_for_attention_alone():
    assert Din(attention_units=(4,)).attention_units == (4,)
    for reduction in ("mean", "last", "gru"):
        # As a model gets its params: with all defaults.
        made = Din(reduction=reduction)
        assert Din.of(made.model_dump()) == made
        line = f"attention_units are for reduction: attention, not {reduction}"
        with pytest.raises(ValueError, match=line):
            Din(reduction=reduction, attention_units=(4,))

"""Lists of requests that have to be of one length, and what is padding in them."""

from __future__ import annotations

import base64
import math

import pytest
import tensorflow as tf

from pipeline import config
from serving.rest import json_codec
from serving.rest.json_codec import BadRequest
from tests.preprocessing import examples
from tests.preprocessing.tables import make_config

_LIST = {"list": True, "max_items": 2}
PAIR = {
    "seen": config.Column(type="string", on_longer="keep_last", **_LIST),
    "dwell": config.Column(
        type="float32", min=0, on_longer="keep_last", same_length_as="seen", **_LIST
    ),
}
DATA = make_config("unused").data.model_copy(update={"columns": PAIR, "inputs": {"test": {}}})
SIGNATURES = {
    "serving_default": {
        "seen": tf.TensorSpec([None, None], tf.string),
        "dwell": tf.TensorSpec([None, None], tf.float32),
    },
    "examples": {"examples": tf.TensorSpec([None], tf.string)},
}


def _read_pair(seen, dwell, *, packed):
    named = {"signature_name": "examples"} if packed else {}
    row = {"seen": seen, "dwell": dwell}
    made = examples.example(seen=[x.encode() for x in seen], dwell=dwell)
    instance = {"b64": base64.b64encode(made).decode()} if packed else row
    return json_codec.read({**named, "instances": [instance]}, DATA, SIGNATURES)


@pytest.mark.parametrize("packed", [False, True])
def test_an_item_that_is_equal_to_padding_is_judged_as_predict_does(packed):
    """Of lists that are of one length as they are sent."""
    _read_pair(["", "a", "b"], [1.0, 2.0, 3.0], packed=packed)  # it is cut off
    with pytest.raises(BadRequest) as failed:
        _read_pair(["a", "", "b"], [1.0, 2.0, 3.0], packed=packed)
    problem = "with an item '', which stands for none; if it is an item, give the column another"
    assert f"column 'seen' is \"['a', '', 'b']\", {problem}" in str(failed.value)
    with pytest.raises(BadRequest, match=r"'dwell' is '\[1\.0\]', and needs one item for each of"):
        _read_pair(["a", "b"], [1.0], packed=packed)


@pytest.mark.parametrize(
    ("seen", "dwell"),
    [
        (["a", ""], [1.0]),
        (["a"], [1.0, math.nan]),
        (["a", "", "b"], [1.0, math.nan, 2.0]),
        (["", ""], [math.nan] * 3),
    ],
)
def test_padding_of_lists_that_have_to_be_of_one_length_is_no_item(seen, dwell):
    found = _read_pair(seen, dwell, packed=False)
    assert found.feeds["seen"].tolist() == [[item.encode() for item in seen]]

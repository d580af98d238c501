"""What answers for exported models, called as a function."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from pipeline.records import tfrecord
from tests.trainer import small_table
from trainer.export import exporters, parity_client, parity_worker, serving_graph


@pytest.fixture(scope="module")
def request_of(tmp_path_factory):
    """Returns requests to an export of a linear model on the small table."""
    folder = tmp_path_factory.mktemp("served")
    table = small_table.Table(folder)
    export = table.estimator.export_saved_model(
        str(folder / "export"),
        serving_graph.build_serving_input_fn(table.records.transforms),
        checkpoint_path=table.checkpoint,
    ).decode()
    exporters.name_signatures(export)

    def build(payloads, batch=8, **others):
        (folder / "rows").write_bytes(b"".join(map(tfrecord.frame, payloads)))
        columns = table.records.transforms.serving_columns
        missing = {name: column.stands_for_missing for name, column in columns.items()}
        fixed = {"export": export, "rows": str(folder / "rows"), "missing": missing}
        batches = parity_client.list_batch_sizes(len(payloads), batch)
        return {**fixed, "batches": batches, "calls_before": 1, **others}

    return build


def test_both_signatures_answer_alike_whatever_the_batch(request_of):
    payloads = small_table.payloads("eval")[:20]
    whole = parity_worker.answer(request_of(payloads, batch=20))
    parts = parity_worker.answer(request_of(payloads, batch=7))
    assert sorted(whole) == [
        f"{signature}/{output}"
        for signature in ("examples", "serving_default")
        for output in ("class", "probabilities")
    ]
    for name, values in whole.items():
        assert len(values) == 20
        np.testing.assert_allclose(parts[name], values, atol=1e-6)
        twin = whole[name.replace("examples", "serving_default")]
        np.testing.assert_allclose(values, twin, atol=1e-6)


def test_rows_after_a_batch_that_is_refused_are_not_answered(request_of):
    payloads = small_table.payloads("eval")[:20]
    payloads[9] = small_table.example(late=1)  # without size, which is never missing
    found = parity_worker.answer(
        request_of(payloads, missing={"size": 0.0, "dep time": 0.0, "day": 1, "carrier": ""})
    )
    assert len(found["examples/class"]) == 8
    assert len(found["serving_default/class"]) == 20


def _field(number: int, content: bytes) -> bytes:
    """Returns a field of protobuf's wire format that is shorter than 128 bytes."""
    return bytes([8 * number + 2, len(content)]) + content


def test_what_tensorflow_misreads_is_found(request_of):
    """Of a list in two parts, which is the same to protobuf, TensorFlow reads the first."""
    payloads = small_table.payloads("eval")[:20]
    first, second = (_field(2, _field(1, np.float32(x).tobytes())) for x in (1, 2))
    twice = _field(1, _field(1, _field(1, b"dep time") + _field(2, first + second)))
    example = tf.train.Example.FromString(payloads[5])
    del example.features.feature["dep time"]
    payloads[5] = example.SerializeToString() + twice
    message = r"row 5: column 'dep time' holds \[1\.0, 2\.0\], of which TensorFlow reads \[1\.0\]"
    with pytest.raises(ValueError, match=message):
        parity_worker.answer(request_of(payloads))


def test_missing_values_and_nan_are_read_alike(request_of):
    payloads = [
        small_table.example(late=1, size=[float("nan"), 1.0]),
        small_table.example(late=1, size=[3.0, 1.0]),
    ]
    assert len(parity_worker.answer(request_of(payloads))["serving_default/class"]) == 2


def test_bytes_that_end_with_zeros_are_read_alike(request_of):
    payloads = [small_table.example(late=1, carrier=b"AA\0\0")]
    assert len(parity_worker.answer(request_of(payloads))["serving_default/class"]) == 1


def test_texts_are_written_without_pickling():
    assert parity_worker.choose_stored_type(tf.string) is np.bytes_
    assert parity_worker.choose_stored_type(tf.float32) is np.float32


def test_arrays_of_any_name_are_written(tmp_path):
    arrays = {
        name: np.array([n]) for n, name in enumerate(["file", "arr_0", "x.npy", "x", "", "/a"])
    }
    path = str(tmp_path / "arrays")
    parity_worker.write(path, arrays)
    assert parity_worker.read(path) == arrays


@pytest.mark.parametrize(
    "text",
    [
        "the cause",
        "Exception encountered when calling layer 'network' (type Functional).\n\nthe cause\n\n"
        "Call arguments received by layer 'network' (type Functional):\n  • inputs={'y': 1}",
        'in user code:\n\n    File "x.py", line 3, in f  *\n        y(x)\n\n    the cause\n',
    ],
)
def test_the_cause_of_an_error_is_kept(text):
    assert parity_worker.find_cause(text) == "the cause"

"""Answers for exported models as a server would, in a process that has trained nothing.

It is run as a script, which needs TensorFlow alone, or by `trainer.export.forked_worker`. Each line
of JSON on its standard input asks:

  {"export": folder, "rows": TFRecord file of tf.train.Examples, "batches": rows of each,
   "calls_before": 1, "columns": {name of an input: column}, "missing": {column: what stands for a
   missing value}, "answers": file to write}

Of a file of Keras, which must end with `.keras`, "rows" is a file of NumPy arrays, its inputs, and
"classes" are those of its layers that Keras does not know, `module:Class`. With "arrays" in place
of "columns" and "missing", "rows" is a file of NumPy arrays: for each input of `serving_default`,
the one signature that is then called, a serialized `TensorProto` of all rows. Each request is
answered by a line of JSON: `{}`, or `{"error": text}`. Before the first batch counts, each is
called `calls_before` times with it. The file holds NumPy arrays named `signature/output`, of as
many rows as the model answered before it refused a batch. The signature `examples` and those that
begin with `examples:` get the rows as they are, all others get their columns as arrays; a file of
Keras counts as one signature, `keras`. Of models of this project that predict numbers, `unscaled`
is there like an output: what they give before `scale` and `offset`. With "features" the answers are
those features instead, by `name_feature`, that the graph of the model has in the collection
`FEATURES`. Files of arrays are read and written by `read` and `write`.
"""

from __future__ import annotations

import functools
import gc
import importlib
import json
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

if __name__ == "__main__":
    # The folder of this file: its modules are not for serving.
    del sys.path[0]

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import tensor_pb2
from tensorflow.core.protobuf import saved_model_pb2
from tensorflow.python.saved_model import loader_impl

EXAMPLES, KERAS = "examples", "keras"
_SERVING = "serving_default"
# A collection of the graph: what the model is fed, in the order in which it is made.
FEATURES = "estimator_pipeline/features"
# A collection of the graph, see trainer.heads.heads; in Keras the input of a layer without "un".
_UNSCALED = re.compile(r"unscaled\d*")
# About so many rows are read in two ways.
_READ_AGAIN = 32


def write(path: str, arrays: Mapping[str, np.ndarray]) -> None:
    """Writes arrays by any names: in an archive they are numbered. Texts get a fixed width, so that
    nothing has to be unpickled."""
    plain = [x.astype(np.bytes_) if x.dtype == object else x for x in arrays.values()]
    with open(path, "wb") as file:
        np.savez(file, *plain, names=np.array(json.dumps(list(arrays))))


def read(path: str) -> dict[str, np.ndarray]:
    """Returns the arrays that `write` has written."""
    with np.load(path) as file:
        return {name: file[f"arr_{n}"] for n, name in enumerate(json.loads(str(file["names"])))}


def name_feature(number: int) -> str:
    """Returns what one of the features is called in answers."""
    return f"{_SERVING}/feature {number}"


def find_cause(text: str) -> str:
    """Returns the line of an error that says what is wrong: Keras puts the layer before it and what
    that was called with behind it, or the places in the code before it."""
    lines = text.partition("Call arguments received")[0].splitlines()
    said = [
        line.strip()
        for line in lines
        if line.strip() and not line.strip().startswith("Exception encountered when calling layer")
    ]
    if not said:
        return " ".join(text.split())
    return said[-1] if said[0].startswith("in user code") else said[0]


def answer(request: dict[str, Any]) -> dict[str, np.ndarray]:
    """Returns what each signature answers, `[rows, ...]`."""
    if request["export"].endswith(".keras"):
        return _answer_with_keras(request)
    arrays = _read_arrays(request["rows"]) if request.get("arrays") else None
    signatures = _read_signatures(request["export"])
    rows = [] if arrays else list(tf.data.TFRecordDataset(request["rows"]).as_numpy_iterator())
    found, settings = {}, tf.compat.v1.ConfigProto()
    rewrite = settings.graph_options.rewrite_options
    rewrite.disable_meta_optimizer = not request.get("optimize", True)
    tags, loader = [tf.saved_model.SERVING], loader_impl.SavedModelLoader(request["export"])
    if rewrite.disable_meta_optimizer:
        _leave_functions(loader.saved_model)
    graph = tf.Graph()  # for all sessions
    saver, _ = loader.load_graph(graph, tags)
    alone = arrays is not None or request.get("features", False)
    for name in [_SERVING] if alone else sorted(signatures):
        if arrays is not None:
            given: list[Any] = [arrays[fed] for fed in sorted(signatures[name].inputs)]
        elif name.partition(":")[0] == EXAMPLES:
            given = [np.array(rows, object)]
        else:
            given = _build_columns(signatures[name], rows, request)
        count = len(rows) if arrays is None else len(next(iter(arrays.values())))
        # As TensorFlow Serving does. A session for each: what is random begins again.
        with tf.compat.v1.Session(graph=graph, config=settings) as session:
            loader.restore_variables(session, saver)
            loader.run_init_ops(session, tags)
            for output, parts in _compute_answers(
                session,
                signatures[name],
                given,
                count=count,
                request=request,
                whole=name in (_SERVING, EXAMPLES),
            ).items():
                # The first part has no rows, nor the size of what is as long as the longest list.
                found[f"{name}/{output}"] = np.concatenate(parts[1:] or parts)
    return found


def _leave_functions(model: Any) -> None:
    """Has the functions of a model not be optimized, whose calls bring settings of their own."""
    for graph in model.meta_graphs:
        functions = graph.graph_def.library.function
        for node in (*graph.graph_def.node, *(n for f in functions for n in f.node_def)):
            if "config_proto" in node.attr:
                settings = tf.compat.v1.ConfigProto.FromString(node.attr["config_proto"].s)
                settings.graph_options.rewrite_options.disable_meta_optimizer = True
                node.attr["config_proto"].s = settings.SerializeToString(deterministic=True)


def _read_arrays(path: str) -> dict[str, np.ndarray]:
    """Returns arrays of `[rows, ...]`, by name of the input."""
    protos = {n: tensor_pb2.TensorProto.FromString(x.tobytes()) for n, x in read(path).items()}
    return {name: tf.make_ndarray(proto) for name, proto in protos.items()}


def _read_signatures(export: str) -> dict[str, Any]:
    with open(os.path.join(export, "saved_model.pb"), "rb") as file:
        model = saved_model_pb2.SavedModel.FromString(file.read())
    return {
        name: signature
        for graph in model.meta_graphs
        for name, signature in graph.signature_def.items()
        if not name.startswith("__saved_model_")
    }


def _answer_with_keras(request: dict[str, Any]) -> dict[str, np.ndarray]:
    known = [name.split(":") for name in request["classes"]]
    own = {name: getattr(importlib.import_module(module), name) for module, name in known}
    model = tf.keras.models.load_model(request["export"], custom_objects=own)
    scaled = [layer for layer in model.layers if _UNSCALED.fullmatch(f"un{layer.name}")]
    if scaled:
        unscaled = {f"un{layer.name}": layer.input for layer in scaled}
        model = tf.keras.Model(model.input, {**model.output, **unscaled})
    inputs = {name: tf.constant(x) for name, x in read(request["rows"]).items()}
    found = {
        name: [np.zeros([0, *output.shape[1:]], output.dtype.as_numpy_dtype)]
        for name, output in model.output.items()
    }
    rows = len(next(iter(inputs.values()))) if inputs else 0
    for start, stop in _split_into_batches(request, rows):
        batch = {name: x[start:stop] for name, x in inputs.items()}
        try:
            for _ in range(0 if start else request["calls_before"]):
                model(batch, training=False)
            outputs = model(batch, training=False)
        except tf.errors.OpError:
            break
        for output, value in outputs.items():
            found[output].append(value.numpy())
    return {f"{KERAS}/{output}": np.concatenate(parts) for output, parts in found.items()}


def _compute_answers(
    session: Any,
    signature: Any,
    given: list[Any],
    *,
    count: int,
    request: dict[str, Any],
    whole: bool,
) -> dict[str, list[np.ndarray]]:
    graph = session.graph
    outputs = {n: graph.get_tensor_by_name(x.name) for n, x in signature.outputs.items()}
    if request.get("features", False):
        noted = enumerate(graph.get_collection(FEATURES))
        outputs = {name_feature(n).removeprefix(f"{_SERVING}/"): x for n, x in noted}
    elif whole:
        unscaled = filter(_UNSCALED.fullmatch, graph.get_all_collection_keys())
        outputs |= {name: graph.get_collection(name)[0] for name in unscaled}
    # What refuses its first batch has answered no rows.
    found: dict[str, list[np.ndarray]] = {n: [_build_empty(x)] for n, x in outputs.items()}
    # Without its feeds being looked up again for each batch.
    call = session.make_callable(outputs, [x.name for _, x in sorted(signature.inputs.items())])
    for start, stop in _split_into_batches(request, count):
        feeds = [_take_rows(fed, start, stop) for fed in given]
        try:
            for _ in range(0 if start else request["calls_before"]):
                call(*feeds)
            answers = call(*feeds)
        except tf.errors.OpError:
            break
        for output, value in answers.items():
            found[output].append(value.astype(choose_stored_type(outputs[output].dtype)))
    return found


def _split_into_batches(request: dict[str, Any], rows: int) -> Iterator[tuple[int, int]]:
    """Yields where each batch begins and ends; none of an input that has no rows."""
    start = 0
    for size in request["batches"] if rows else ():
        yield start, start + size
        start += size


def _build_empty(tensor: Any) -> np.ndarray:
    known = tensor.shape.as_list()[1:] if tensor.shape.rank else []
    return np.zeros([0, *(size or 0 for size in known)], choose_stored_type(tensor.dtype))


def choose_stored_type(dtype: tf.DType) -> Any:
    """Returns how values are written: texts of fixed width need no pickling."""
    return np.bytes_ if dtype == tf.string else dtype.as_numpy_dtype


def _build_columns(signature: Any, rows: list[bytes], request: dict[str, Any]) -> list[Any]:
    """Returns what each input is fed for all rows, in the order of names: `[rows, ...]`; of lists
    the items of all, where each begins, and what stands behind its end."""
    # All or none: an argument may be called as another column is.
    named = set(signature.inputs) <= set(request["missing"])
    specs = {
        name if named else request["columns"][name]: spec
        for name, spec in sorted(signature.inputs.items())
    }
    missing = {column: request["missing"][column] for column in specs}
    if not specs:
        return []
    # One default for all that have the same: to make one for each of many columns takes long.
    build = functools.cache(_build_default)
    wanted = {
        column: _build_feature(spec, missing[column], build) for column, spec in specs.items()
    }
    parsed = tf.io.parse_example(tf.constant(rows), wanted)
    found = {
        column: (values.values.numpy(), values.row_splits.numpy(), missing[column])
        if isinstance(values, tf.RaggedTensor)
        else values.numpy()
        for column, values in parsed.items()
    }
    _read_again(found, rows)
    return [found[column] for column in specs]


def _read_again(found: Mapping[str, Any], rows: Sequence[bytes]) -> None:
    """Reads some rows by protobuf, too: what TensorFlow's parser misreads, the exported model and
    its Estimator misread alike. Raises `ValueError` for the first value that differs."""
    # Of columns of one value all at once: one by one those of many columns take long.
    single = {
        column: [[value] for value in parsed.tolist()]
        for column, parsed in found.items()
        if not isinstance(parsed, tuple) and parsed.ndim == 1
    }
    for row in range(0, len(rows), max(1, len(rows) // _READ_AGAIN)):
        features = dict(tf.train.Example.FromString(rows[row]).features.feature.items())
        for column, parsed in found.items():
            kind = features[column].WhichOneof("kind") if column in features else None
            if kind is None:
                continue
            held = list(getattr(features[column], kind).value)
            read = single[column][row] if column in single else _get_row(parsed, row).tolist()
            # Lists are fast to compare, but no NaN is equal to another.
            if held != read and not (
                len(held) == len(read)
                and all(a == b or (a != a and b != b) for a, b in zip(held, read, strict=True))
            ):
                raise ValueError(
                    f"row {row}: column {column!r} holds {_format_few(held)}, of which TensorFlow "
                    f"reads {_format_few(read)}; write its tf.train.Example again"
                )


def _get_row(parsed: Any, row: int) -> np.ndarray:
    """Returns all values of a row, `[values]`."""
    if isinstance(parsed, tuple):
        items, begins, _ = parsed
        return np.asarray(items[begins[row] : begins[row + 1]])
    # Not `parsed[row]`: of bytes, NumPy's own type has no zeros at their end.
    return np.asarray(parsed[row : row + 1].reshape(-1))


def _format_few(values: list[Any]) -> str:
    return f"{values[:4]}{f' and {len(values) - 4} more' if len(values) > 4 else ''}"


def _build_feature(spec: Any, missing: Any, build_default: Callable[..., tf.Tensor]) -> Any:
    dtype = tf.as_dtype(spec.dtype)
    shape = tuple(dimension.size for dimension in spec.tensor_shape.dim)[1:]
    if shape == (-1,):
        return tf.io.RaggedFeature(dtype)
    # By its text: NaN is equal to nothing.
    return tf.io.FixedLenFeature(shape, dtype, build_default(dtype, shape, json.dumps(missing)))


def _build_default(dtype: tf.DType, shape: tuple[int, ...], missing: str) -> tf.Tensor:
    """Returns a tensor of what is `missing`, as JSON."""
    return tf.constant(json.loads(missing), dtype, shape)


def _take_rows(given: Any, start: int, stop: int) -> np.ndarray:
    """Returns some rows as they are fed: lists padded to the longest of them."""
    if not isinstance(given, tuple):
        return np.asarray(given[start:stop])
    items, begins, missing = given
    begins = begins[start : stop + 1]
    lengths = np.diff(begins)[:, np.newaxis]
    shape = [len(lengths), lengths.max(initial=0)]
    padded = np.full(shape, missing.encode() if isinstance(missing, str) else missing, items.dtype)
    padded[np.arange(shape[1]) < lengths] = items[begins[0] : begins[-1]]
    return padded


def main() -> None:
    """Answers until there are no more requests."""
    # Ctrl-C is for the process that asks; when that ends, so does the input.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # What libraries print must not be taken for an answer.
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    # As in pipeline.processes.collector, which a server does not have.
    gc.set_threshold(100_000, 20, 20)
    # To load as a session does is deprecated, as all that Estimators need is.
    tf.compat.v1.logging.set_verbosity(tf.compat.v1.logging.ERROR)
    for line in sys.stdin:
        request = json.loads(line)
        reply = {}
        try:
            write(request["answers"], answer(request))
        except Exception as error:
            reply = {"error": f"{type(error).__name__}: {find_cause(str(error))}"}
        print(json.dumps(reply), file=replies, flush=True)


if __name__ == "__main__":
    main()

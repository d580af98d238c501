"""Adam for tables of embeddings: a step costs what a batch asks for, not what the table holds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from trainer.optimizers import row_gradients


class _RowGradient(NamedTuple):
    """The gradient of rows of a table: of those that `indices` are, each there once."""

    grad: Any
    var: Any
    indices: Any


class RowwiseAdam(tf.compat.v1.train.AdamOptimizer):
    """Adam (Kingma and Ba, 2015) that leaves the other rows of a table alone.

    The moments of a row decay when it is asked for, not in every step. TensorFlow's own reads and
    writes the table and both moments whole in each step
    (docs/tensorflow-pitfalls.md#adam-on-embeddings). Gradients that are not of single rows are
    applied as there, and its checkpoints are read.

    Of two processes that change a row at the same moment on parameter servers, one may overwrite
    the moments of the other; both change the row itself.

    With `decay`, what has two dimensions or more (not biases) shrinks by the learning rate times
    `decay` of itself before each update; of a table the rows of the batch do. This is AdamW
    (Loshchilov and Hutter, Decoupled weight decay regularization, 2019).
    """

    def __init__(self, learning_rate: Any, decay: float = 0.0) -> None:
        super().__init__(learning_rate)
        self._decay = decay
        # Rows to update, by what they must have in common to be updated together.
        self._waiting: dict[str, list[_RowGradient]] = {}

    def _prepare(self) -> None:
        """Makes what the updates of all variables share: of many tables it would be most ops."""
        super()._prepare()
        power1, power2 = self._get_beta_accumulators()
        self._left = 1 - self._beta1_t, 1 - self._beta2_t
        self._step = self._lr_t * tf.sqrt(1 - power2) / (1 - power1)

    def _resource_apply_dense(self, grad: Any, var: Any) -> Any:
        """Updates the resource `var` by `grad`, of the same shape."""
        if not self._decays(var):
            return super()._resource_apply_dense(grad, var)
        # Not before: what makes the gradient would read a variable that has shrunk already.
        with tf.control_dependencies([grad]):
            shrink = tf.cast(self._lr_t, var.dtype.base_dtype) * self._decay
            shrunk = var.assign_sub(shrink * var.read_value(), read_value=False)
        with tf.control_dependencies([shrunk]):
            return super()._resource_apply_dense(grad, var)

    def _decays(self, var: Any) -> bool:
        return bool(self._decay) and var.shape.rank > 1

    def _resource_apply_sparse_duplicate_indices(self, grad: Any, var: Any, indices: Any) -> Any:
        """Updates rows of which some may be in `indices` several times. Lookups that ask for each
        row once have gradients that are added up already: doing so again is a tenth of all ops."""
        if row_gradients.are_distinct(indices):
            return self._resource_apply_sparse(grad, var, indices)
        return super()._resource_apply_sparse_duplicate_indices(grad, var, indices)

    def _resource_apply_sparse(self, grad: Any, var: Any, indices: Any) -> Any:
        """Updates the rows `indices`, each there once, of the resource `var` [rows, ...]."""
        if tf.distribute.has_strategy():  # it may run this apart for each variable
            return self._apply_rows([_RowGradient(grad, var, indices)])
        alike = (var.device, var.dtype.base_dtype, var.shape[1:].as_list(), self._decays(var))
        self._waiting.setdefault(str(alike), []).append(_RowGradient(grad, var, indices))
        return tf.no_op()

    def _finish(self, update_ops: Any, name_scope: Any) -> Any:
        waiting, self._waiting = self._waiting, {}
        for tables in waiting.values():
            with tf.device(tables[0].var.device):
                update_ops = [*update_ops, self._apply_rows(tables)]
        return super()._finish(update_ops, name_scope)

    def _apply_rows(self, tables: Sequence[_RowGradient]) -> Any:
        """Updates rows of several tables of one width and place, with the arithmetic for all of
        them at once: of sixty tables it would be seven hundred ops."""
        kind = tables[0].var.dtype.base_dtype
        shared = (self._beta1_t, self._beta2_t, self._epsilon_t, self._step, *self._left)
        beta1, beta2, epsilon, rate, left1, left2 = (tf.cast(x, kind) for x in shared)
        slots = {name: [self.get_slot(of.var, name) for of in tables] for name in ("m", "v")}
        variables = [of.var for of in tables]
        grad = _join([of.grad for of in tables])
        first = beta1 * _join(_gather_rows(slots["m"], tables)) + left1 * grad
        second = beta2 * _join(_gather_rows(slots["v"], tables)) + left2 * tf.square(grad)
        step = rate * first / (tf.sqrt(second) + epsilon)
        if self._decays(variables[0]):
            held = _join(_gather_rows(variables, tables))
            step += tf.cast(self._lr_t, kind) * self._decay * held
        return tf.group(
            *_scatter(tf.raw_ops.ResourceScatterSub, variables, step, tables=tables),
            *_scatter(tf.raw_ops.ResourceScatterUpdate, slots["m"], first, tables=tables),
            *_scatter(tf.raw_ops.ResourceScatterUpdate, slots["v"], second, tables=tables),
        )


def _join(parts: Sequence[Any]) -> Any:
    return parts[0] if len(parts) == 1 else tf.concat(parts, axis=0)


def _gather_rows(resources: Sequence[Any], tables: Sequence[_RowGradient]) -> list[Any]:
    return [
        tf.raw_ops.ResourceGather(
            resource=one.handle, indices=of.indices, dtype=one.dtype.base_dtype
        )
        for one, of in zip(resources, tables, strict=True)
    ]


def _scatter(
    how: Any, resources: Sequence[Any], joined: Any, *, tables: Sequence[_RowGradient]
) -> list[Any]:
    """Returns the ops that give each of the resources its rows of `joined`."""
    sizes = [tf.size(of.indices) for of in tables]
    parts = [joined] if len(tables) == 1 else tf.split(joined, sizes)
    return [
        how(resource=one.handle, indices=of.indices, updates=part)
        for one, of, part in zip(resources, tables, parts, strict=True)
    ]

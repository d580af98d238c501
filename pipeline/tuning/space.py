"""What a search may set: keys of the config, each with the values to try, from a YAML file.

train.optimizer.learning_rate: {low: 1e-4, high: 1e-1, log: true}
model.params.dropout: {low: 0.0, high: 0.5}
model.params.hidden_units: {choices: [[64], [128, 64]]}
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import random
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import yaml

from pipeline import config, errors
from pipeline.config import config_file

# Returns the config with settings such as `train.batch_size=64`, or raises `UsageError`.
Load = Callable[[Sequence[str]], config.Config]
# A value for each key of the space.
Values = Mapping[str, Any]

_RANGE, _CHOICES = ("low", "high", "step", "log"), "choices"
_SHAPES = "{low: 1e-4, high: 1e-1, log: true}, {low: 8, high: 64, step: 8} or {choices: [a, b]}"
# Digits of a sampled number: more would only make it longer to paste.
_DIGITS = 4
# Keys by which a trial would end before the step that the search gives it.
ENDS = ("train.pause_step", "train.max_seconds")
# Keys that, like all keys below them, would make trials something else than trials of one job.
_FIXED = {
    "name": "all trials are of one config",
    "data": "all trials are trained on the same records",
    "label": "trials with different labels cannot be compared",
    "labels": "trials with different labels cannot be compared",
    "eval": "all trials are evaluated in the same way",
    "train.seed": "it decides the order of records, which is the same in all trials",
    **dict.fromkeys(
        ("train.steps", "train.epochs", *ENDS), "the search decides how long trials train"
    ),
}
# How much the loss of one of several labels counts: the label stays what it is.
_FREE = re.compile(r"labels\.[^.]+\.weight")


@dataclasses.dataclass(frozen=True)
class Parameter:
    """The values of one key: one of the `choices`, or else a number from `low` to `high`.

    `whole` numbers are those between whole ends; `log` spreads numbers evenly by their logarithm.
    """

    key: str
    choices: tuple[Any, ...] = ()
    low: float = 0.0
    high: float = 0.0
    step: float | None = None
    log: bool = False
    whole: bool = False

    @property
    def ends(self) -> tuple[Any, ...]:
        """The values that must be allowed, for all others to be."""
        return self.choices or (self.low, self.high)

    def to_fractions(self) -> Parameter:
        """Returns the same range of numbers that need not be whole."""
        return dataclasses.replace(self, whole=False, low=float(self.low), high=float(self.high))

    def to_whole(self) -> Parameter:
        """Returns the same range of whole numbers, for ends written like 8.0. Raises `UsageError`
        for steps between them."""
        step = None if self.step is None else int(self.step)
        if step != self.step:
            raise errors.UsageError(f"{self.key}.step: must be a whole number, got {self.step:g}")
        low, high = int(self.low), int(self.high)
        return dataclasses.replace(self, whole=True, low=low, high=high, step=step)

    def round_value(self, value: Any) -> Any:
        """Returns a number as it is tried: short, and within the ends."""
        if self.choices or self.whole:
            return value
        if self.step is not None:
            return _trim(value)
        return min(self.high, max(self.low, float(f"{value:.{_DIGITS}g}")))

    def perturb(self, value: Any, rng: random.Random) -> Any:
        """Returns a value near `value`: a number times 0.8 or 1.25, or a step away; another choice
        one time in four."""
        if self.choices:
            return rng.choice(self.choices) if rng.random() < 0.25 else value
        if self.step is not None or self.whole:
            step = self.step or max(1, round(abs(value) * 0.2))
            moved = value + rng.choice((-step, step))
        else:
            moved = value * rng.choice((0.8, 1.25))
        return self.round_value(type(value)(min(self.high, max(self.low, moved))))

    def place(self, value: Any) -> float:
        """Returns where a value is between the ends, from 0 to 1, as it would be sampled."""
        if self.choices:
            return self.choices.index(value) / max(1, len(self.choices) - 1)
        low, high, at = self.low, self.high, value
        if self.log:
            low, high, at = math.log(low), math.log(high), math.log(at)
        return float((at - low) / ((high - low) or 1.0))

    def to_json(self) -> dict[str, Any]:
        """Returns the values as the file gives them."""
        if self.choices:
            return {"choices": [*self.choices]}
        found: dict[str, Any] = {"low": self.low, "high": self.high}
        if self.step is not None:
            found["step"] = self.step
        if self.log:
            found["log"] = True
        return found


Space = tuple[Parameter, ...]


def settings(values: Values) -> list[str]:
    """Returns values as `--set` takes them."""
    return [f"{key}={text(value)}" for key, value in values.items()]


def text(value: Any) -> str:
    """Returns a value as YAML 1.1 reads it back, in one line: 1.0e-05, not 1e-05."""
    dumped = yaml.safe_dump(value, default_flow_style=True, width=math.inf, allow_unicode=True)
    return str(dumped).removesuffix("\n...\n").strip()


def read(path: str, load: Load) -> Space:
    """Returns the space in a file, each of whose ends and choices the config allows. Raises
    `UsageError` for any that it does not, and for a file that is no space."""
    tree = config_file.read_yaml(path, "space")
    if not isinstance(tree, dict) or not tree:
        raise errors.UsageError(
            f"space {path!r}: is empty; give keys of the config with the values to try, such as "
            "train.optimizer.learning_rate: {low: 1e-4, high: 1e-1, log: true}"
            if not tree
            else f"space {path!r}: must be a mapping of keys such as model.params.dropout to "
            f"{_SHAPES}"
        )
    with _name_place(path):
        _refuse_overlap([str(key) for key in tree])
        return tuple(
            _check_parameter(_parse_parameter(str(key), given), load) for key, given in tree.items()
        )


@contextlib.contextmanager
def _name_place(path: str) -> Any:
    try:
        yield
    except errors.UsageError as error:
        raise errors.UsageError(f"space {path!r}: {error}") from None


def _refuse_overlap(keys: Sequence[str]) -> None:
    """Raises `UsageError` if one key holds another: a trial would have the value of one only."""
    for key in keys:
        for other in keys:
            if other.startswith(f"{key}."):
                raise errors.UsageError(
                    f"{other}: is a part of {key}, which has values to try, too; give one of them"
                )


def _refuse_fixed(key: str) -> None:
    """Raises `UsageError` for a key that must be the same in all trials, or holds such a key."""
    if _FREE.fullmatch(key):
        return
    for fixed, why in _FIXED.items():
        if f"{key}.".startswith(f"{fixed}."):
            raise errors.UsageError(f"{key}: cannot be searched: {why}")
        if fixed.startswith(f"{key}."):
            raise errors.UsageError(
                f"{key}: cannot be searched, because of {fixed}: {why}; give single keys below it"
            )


def _parse_parameter(key: str, given: Any) -> Parameter:
    _refuse_fixed(key)
    if not isinstance(given, dict) or not given:
        raise errors.UsageError(f"{key}: must be {_SHAPES}, got {given!r}")
    if _CHOICES in given:
        return _parse_choices(key, given)
    for name in given:
        if name not in _RANGE:
            hint = errors.suggest(str(name), [*_RANGE, _CHOICES])
            known = f"{', '.join(_RANGE)}, or {_CHOICES}"
            raise errors.UsageError(f"{key}: unknown key {name!r}{hint}; known here: {known}")
    return _parse_range(key, given)


def _parse_choices(key: str, given: Mapping[str, Any]) -> Parameter:
    choices = given[_CHOICES]
    if len(given) > 1:
        raise errors.UsageError(f"{key}: choices stand alone; take the other keys away")
    if not isinstance(choices, list) or not choices:
        raise errors.UsageError(f"{key}.choices: must be a list of values, got {choices!r}")
    if len({text(one) for one in choices}) < len(choices):
        raise errors.UsageError(f"{key}.choices: a value is given twice in {choices!r}")
    return Parameter(key, choices=tuple(choices))


def _parse_range(key: str, given: Mapping[str, Any]) -> Parameter:
    for name in ("low", "high"):
        if name not in given:
            raise errors.UsageError(f"{key}: missing key {name!r}; must be {_SHAPES}")
    low, high = (_parse_number(f"{key}.{name}", given[name]) for name in ("low", "high"))
    step = None if given.get("step") is None else _parse_number(f"{key}.step", given["step"])
    log = given.get("log", False)
    if not isinstance(log, bool):
        raise errors.UsageError(f"{key}.log: must be true or false, got {log!r}")
    if low >= high:
        raise errors.UsageError(f"{key}: low must be below high, got {low:g} and {high:g}")
    if step is not None and not 0 < step <= high - low:
        raise errors.UsageError(
            f"{key}.step: must be above 0 and at most {high - low:g}, got {step:g}"
        )
    if log and (low <= 0 or step is not None):
        raise errors.UsageError(f"{key}.log: needs low above 0 and no step, got low {low:g}")
    if step is not None:  # the last step may end below what is given
        high = _trim(low + int((high - low) / step + 1e-9) * step)
    whole = all(isinstance(one, int) for one in (low, high, step if step is not None else 1))
    found = Parameter(key, low=low, high=high, step=step, log=log, whole=whole)
    return found if whole else found.to_fractions()


def _parse_number(where: str, given: Any) -> float:
    """Returns a number; to YAML 1.1 `1e-4` is a text."""
    found = given
    if isinstance(given, str):
        with contextlib.suppress(ValueError):
            found = float(given)
    if isinstance(found, bool) or not isinstance(found, int | float) or not math.isfinite(found):
        raise errors.UsageError(f"{where}: must be a number, got {given!r}")
    return found


def _trim(value: float) -> float:
    """Returns a sum of steps without what rounding adds: 0.3, not 0.30000000000000004."""
    return value if isinstance(value, int) else float(f"{value:.10g}")


def _check_parameter(parameter: Parameter, load: Load) -> Parameter:
    """Returns the parameter, of fractions or of whole numbers as its key holds them. Raises
    `UsageError` for values that the config does not allow."""
    found: Any = None
    for value in parameter.ends:
        try:
            found = load(settings({parameter.key: value}))
        except errors.UsageError as error:
            line = str(error).partition(": ")[2]  # without the name of the config
            raise errors.UsageError(f"{parameter.key}={text(value)}: {line}") from None
    held = value_of(found, parameter.key)
    if parameter.whole and isinstance(held, float):
        return parameter.to_fractions()
    if not parameter.whole and not parameter.choices and isinstance(held, int):
        return parameter.to_whole()
    return parameter


def value_of(job: config.Config, key: str) -> Any:
    """Returns the value of a key such as `train.batch_size`; `None` if it has none."""
    node: Any = job.model_dump()
    for part in key.split("."):
        node = node.get(part) if isinstance(node, dict) else None
    return node

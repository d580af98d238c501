"""Charts as inline SVG: a frame with axes, and marks on it."""

from __future__ import annotations

import dataclasses
import html
import math
from collections.abc import Iterable, Sequence

# Told apart by people who cannot tell all colors apart, and on light and dark paper.
COLORS = ("#4878a8", "#d9822b", "#5a9157", "#a0529a", "#c0504d", "#7a6a53", "#3d9a9a", "#8c8c2e")
BLUE, ORANGE, GREEN = COLORS[:3]
# Up to so many points are drawn as dots: a line alone does not show a single one.
FEW = 20
_LEFT, _RIGHT, _TOP, _BOTTOM = 58, 12, 8, 34
_TICKS = 5
_LETTER = 7  # pixels, of a wide one

# (x, y), or (x, low, high) of a band.
Point = tuple[float, float]
Span = tuple[float, float, float]


def svg(width: float, height: float, drawn: str) -> str:
    """Returns an image that shrinks to narrower pages."""
    return (
        f'<svg viewBox="0 0 {width:g} {height:g}" width="{width:g}" height="{height:g}" '
        f'role="img">{drawn}</svg>'
    )


def ticks(low: float, high: float, count: int = _TICKS) -> list[float]:
    """Returns about `count` round numbers from `low` to `high`."""
    if not math.isfinite(high - low) or high <= low:
        return [low]
    raw = (high - low) / count
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * m for m in (1, 2, 5, 10) if power * m >= raw * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [n * step for n in range(first, math.floor(high / step + 1e-9) + 1)]


def number(value: float) -> str:
    """Returns a number for a tick: short, and with thousands separated."""
    if value and not 1e-4 <= abs(value) < 1e10:
        return f"{value:.3g}"
    for least, size, unit in ((1e9, 1e9, "G"), (1e6, 1e6, "M"), (1e4, 1e3, "k")):
        if abs(value) >= least:
            return f"{value / size:,.4g}{unit}"
    text = f"{value:,.4f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


@dataclasses.dataclass(frozen=True)
class Frame:
    """A chart's axes: `x` and `y` are the numbers at the ends. What lies beyond is drawn at them.

    `x_ticks` are places and their labels; round numbers without them.
    """

    x: tuple[float, float]
    y: tuple[float, float]
    x_label: str = ""
    y_label: str = ""
    width: float = 330
    height: float = 250
    x_ticks: Sequence[tuple[float, str]] | None = None
    y_ticks: Sequence[tuple[float, str]] | None = None

    def place_point(self, x: float, y: float) -> Point:
        """Returns the place of a point in the image, in pixels."""
        return self._x(x), self._y(y)

    def _x(self, value: float) -> float:
        return _LEFT + _part(value, self.x) * (self.width - _LEFT - _RIGHT)

    def _y(self, value: float) -> float:
        return _TOP + (1 - _part(value, self.y)) * (self.height - _TOP - _BOTTOM)

    def line(
        self,
        points: Iterable[Point],
        color: str = BLUE,
        *,
        dashed: bool = False,
        thin: bool = False,
    ) -> str:
        """Returns a line through points."""
        places = [self.place_point(x, y) for x, y in points]
        if not places:
            return ""
        drawn = "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
        dash = ' stroke-dasharray="4 3"' if dashed else ""
        width = 1 if dashed or thin else 1.8
        return f'<path d="M{drawn}" fill="none" stroke="{color}" stroke-width="{width}"{dash}/>'

    def band(self, spans: Sequence[Span], color: str = BLUE) -> str:
        """Returns the area between `low` and `high` of each (x, low, high)."""
        if not spans:
            return ""
        there = [self.place_point(x, high) for x, _, high in spans]
        back = [self.place_point(x, low) for x, low, _ in reversed(spans)]
        drawn = "L".join(f"{x:.1f} {y:.1f}" for x, y in [*there, *back])
        return f'<path d="M{drawn}Z" fill="{color}" fill-opacity="0.18"/>'

    def dots(self, points: Iterable[Point], color: str = BLUE) -> str:
        """Returns a dot for each point."""
        places = (self.place_point(x, y) for x, y in points)
        return "".join(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{color}"/>' for x, y in places
        )

    def intervals(self, spans: Iterable[Span], color: str = BLUE) -> str:
        """Returns an upright bar for each (x, low, high)."""
        bars = ((self._x(x), self._y(low), self._y(high)) for x, low, high in spans)
        return "".join(
            f'<path d="M{x:.1f} {low:.1f}V{high:.1f}" stroke="{color}" stroke-width="1.5"/>'
            for x, low, high in bars
        )

    def boxes(
        self,
        boxes: Iterable[tuple[float, float, float, float]],
        color: str = BLUE,
        opacity: float = 1.0,
    ) -> str:
        """Returns a box for each (left, right, bottom, top), in the units of the axes."""
        drawn = []
        for left, right, bottom, top in boxes:
            (x, y), (x_end, y_end) = self.place_point(left, top), self.place_point(right, bottom)
            drawn.append(
                f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(x_end - x, 0.3):.1f}" '
                f'height="{max(y_end - y, 0):.1f}" fill="{color}" fill-opacity="{opacity:.3g}"/>'
            )
        return "".join(drawn)

    def spot(self, x: float, y: float, color: str, *, label: str) -> str:
        """Returns a diamond, which says `label` to who points at it."""
        left, top = self.place_point(x, y)
        return (
            f'<path d="M{left:.1f} {top - 6:.1f}l4 6l-4 6l-4 -6Z" fill="{color}">'
            f"<title>{html.escape(label)}</title></path>"
        )

    def crosses(self, marks: Iterable[tuple[float, str, str]], y: float, color: str) -> str:
        """Returns a cross for each (x, name, label), in their order: each says `label` to who
        points at it, and has its name next to it, unless that of another is there."""
        drawn, free = [], 0.0
        for x, name, label in marks:
            left, top = self.place_point(x, y)
            drawn.append(
                f'<path class="cross" d="M{left - 5:.1f} {top - 5:.1f}l10 10m0 -10l-10 10" '
                f'stroke="{color}" stroke-width="2.5"><title>{html.escape(label)}</title></path>'
            )
            wide = len(name) * _LETTER
            # To the left of a cross where there is no room to its right.
            place = left + 8 if left + 8 + wide < self.width else left - 8 - wide
            if place < free:
                continue
            drawn.append(f'<text x="{place:.1f}" y="{top + 4:.1f}">{html.escape(name)}</text>')
            free = max(left + 8, place + wide)
        return "".join(drawn)

    def mark(self, x: float, color: str, label: str = "") -> str:
        """Returns an upright line at `x`, which says `label` to who points at it."""
        place, bottom = self._x(x), self.height - _BOTTOM
        title = f"<title>{html.escape(label)}</title>" if label else ""
        return (
            f'<path d="M{place:.1f} {_TOP}V{bottom:.1f}" stroke="{color}" '
            f'stroke-width="1.5">{title}</path>'
        )

    def draw(self, *marks: str) -> str:
        """Returns the chart: axes with round numbers, and the marks on them."""
        right, bottom = self.width - _RIGHT, self.height - _BOTTOM
        parts = [
            f'<path class="axis" d="M{_LEFT} {_TOP}V{bottom}H{right}" fill="none"/>',
            *(
                self._draw_horizontal(value, label)
                for value, label in self._ticks(self.y, self.y_ticks)
            ),
            *(
                self._draw_vertical(value, label)
                for value, label in self._ticks(self.x, self.x_ticks)
            ),
            *marks,
            f'<text x="{(_LEFT + right) / 2:g}" y="{self.height - 4}" text-anchor="middle">'
            f"{html.escape(self.x_label)}</text>",
            f'<text transform="translate(10 {(_TOP + bottom) / 2:g}) rotate(-90)" '
            f'text-anchor="middle">{html.escape(self.y_label)}</text>',
        ]
        return svg(self.width, self.height, "".join(parts))

    @staticmethod
    def _ticks(
        ends: tuple[float, float], given: Sequence[tuple[float, str]] | None
    ) -> Sequence[tuple[float, str]]:
        return [(value, number(value)) for value in ticks(*ends)] if given is None else given

    def _draw_horizontal(self, value: float, label: str) -> str:
        y = self._y(value)
        return (
            f'<path class="grid" d="M{_LEFT} {y:.1f}H{self.width - _RIGHT}"/>'
            f'<text x="{_LEFT - 4}" y="{y + 4:.1f}" text-anchor="end">{html.escape(label)}</text>'
        )

    def _draw_vertical(self, value: float, label: str) -> str:
        x, bottom = self._x(value), self.height - _BOTTOM
        # A label at the right end would be cut in the middle of its last letters.
        cut = x + len(label) * _LETTER / 2 > self.width
        place, anchor = (self.width, "end") if cut else (x, "middle")
        return (
            f'<path class="grid" d="M{x:.1f} {_TOP}V{bottom}"/>'
            f'<text x="{place:.1f}" y="{bottom + 14}" text-anchor="{anchor}">'
            f"{html.escape(label)}</text>"
        )


def _part(value: float, ends: tuple[float, float]) -> float:
    """Returns where a value is between two ends, from 0 to 1."""
    low, high = ends
    return min(1.0, max(0.0, (value - low) / ((high - low) or 1.0)))


def key(names: Iterable[tuple[str, str]]) -> str:
    """Returns what colors mean: pairs of a color and a text."""
    return "&ensp;".join(
        f'<span style="color:{color}">&#9632;</span> {html.escape(text)}' for color, text in names
    )


_CELL, _NAMES = 32, 96


def matrix(
    shades: Sequence[Sequence[float]],
    texts: Sequence[Sequence[str]],
    names: Sequence[str],
    *,
    notes: Sequence[str],
    labels: tuple[str, str],
) -> str:
    """Returns a square of cells: `shades` from 0 to 1, with `texts` on them; `names` of rows and
    columns, `notes` after the rows. `labels` say what rows and columns are."""
    side = len(names) * _CELL
    parts = [
        f'<text x="{_NAMES + side / 2:g}" y="11" text-anchor="middle">'
        f"{html.escape(labels[1])}</text>"
        f'<text x="2" y="26">{html.escape(labels[0])}</text>'
    ]
    for row, name in enumerate(names):
        y, x = 32 + row * _CELL, _NAMES + row * _CELL + _CELL / 2
        parts.append(
            f'<text x="{_NAMES - 6}" y="{y + 20}" text-anchor="end">{_shorten(name, 14)}</text>'
            f'<text x="{x:g}" y="26" text-anchor="middle">{_shorten(name, 5)}</text>'
            f'<text x="{_NAMES + side + 6}" y="{y + 20}">{html.escape(notes[row])}</text>'
        )
        for column, shade in enumerate(shades[row]):
            left = _NAMES + column * _CELL
            color = BLUE if row == column else ORANGE
            parts.append(
                f'<rect x="{left}" y="{y}" width="{_CELL - 1}" height="{_CELL - 1}" fill="{color}" '
                f'fill-opacity="{0.04 + 0.8 * shade:.3f}"/><text class="ink" '
                f'x="{left + _CELL / 2:g}" y="{y + 20}" text-anchor="middle">'
                f"{html.escape(texts[row][column])}</text>"
            )
    return svg(_NAMES + side + 70, 34 + side, "".join(parts))


def _shorten(text: str, length: int) -> str:
    return html.escape(text if len(text) <= length else f"{text[: length - 1]}…")

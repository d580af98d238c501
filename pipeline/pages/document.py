"""HTML pages: one file each, without scripts or anything to fetch, light or dark, and printable."""

from __future__ import annotations

import html
from collections.abc import Collection, Iterable, Sequence

_STYLE = """
:root { color-scheme: light dark; --ink: #222; --muted: #666; --rule: #ddd; --paper: #fff;
        --grid: #e4e4e4; --box: #f5f5f5; --bad: #b3261e; --good: #2e7d32; }
@media (prefers-color-scheme: dark) { :root { --ink: #e3e3e3; --muted: #a2a2a2; --rule: #3c3c3c;
        --paper: #161616; --grid: #333; --box: #222; --bad: #f2897f; --good: #81c784; } }
body { font: 14px/1.45 system-ui, sans-serif; color: var(--ink); background: var(--paper);
       margin: 2rem auto; max-width: 1080px; padding: 0 1rem; overflow-wrap: break-word;
       -webkit-print-color-adjust: exact; print-color-adjust: exact; }
h1 { font-size: 1.5rem; margin: 0 0 .2rem; } h2 { font-size: 1.05rem; margin: 0 0 .4rem; }
h3 { font-size: .95rem; margin: .8rem 0 .2rem; } a { color: inherit; }
p.lead, small, text, p.note { color: var(--muted); fill: var(--muted); }
p { max-width: 75ch; } p.note { margin: .3rem 0; font-size: 12px; }
figure p.note { max-width: 330px; }
section { border-top: 1px solid var(--rule); padding: 1rem 0; }
.splits { display: flex; flex-wrap: wrap; gap: 1.5rem; }
figure { margin: 0; max-width: 100%; } figcaption { font-weight: 600; margin-bottom: .2rem; }
svg { display: block; max-width: 100%; height: auto; } td svg { max-width: none; }
td { white-space: nowrap; } td.long { white-space: normal; min-width: 40ch; }
text { font-size: 11px; }
svg .grid { stroke: var(--grid); } svg .ink { fill: var(--ink); } svg .axis { stroke: #999; }
svg .paper { fill: var(--paper); }
dl { display: grid; grid-template-columns: auto 1fr auto 1fr; gap: 0 .6rem;
     min-width: 300px; width: max-content; max-width: 100%;
     margin: .4rem 0 0; font-size: 12px; }
dt { color: var(--muted); } dd { margin: 0; text-align: right;
     overflow-wrap: anywhere; }
dd, td { font-variant-numeric: tabular-nums; }
/* Its shadows are at the edges of the page; a cover at each end of the table hides them there. */
.wide { overflow-x: auto; max-width: 100%; background:
        linear-gradient(to right, var(--paper) 50%, transparent) left / 2.5rem 100% local,
        linear-gradient(to left, var(--paper) 50%, transparent) right / 2.5rem 100% local,
        linear-gradient(to right, var(--rule), transparent) left / .8rem 100%,
        linear-gradient(to left, var(--rule), transparent) right / .8rem 100%;
        background-repeat: no-repeat; }
table { border-collapse: collapse; font-size: 13px; margin: .3rem 0; }
th { text-align: left; font-weight: 600; color: var(--muted); }
th, td { padding: .15rem .7rem .15rem 0; vertical-align: top; } td.right, th.right
{ text-align: right; } tr + tr > td { border-top: 1px solid var(--rule); }
.bad { color: var(--bad); } .good { color: var(--good); }
.tiles { display: flex; flex-wrap: wrap; gap: .6rem; margin: .6rem 0; }
.tiles div { background: var(--box); border: 1px solid var(--rule); border-radius: 6px;
             padding: .4rem .8rem; } .tiles b { display: block; font-size: 1.15rem; }
pre { background: var(--box); padding: .6rem; overflow-x: auto; font-size: 12px; }
@media print { :root { color-scheme: light; --ink: #000; --muted: #444; --rule: #bbb; --paper: #fff;
        --grid: #ddd; --box: #fff; --bad: #b3261e; --good: #2e7d32; }
        h2, h3, figcaption { break-after: avoid; } figure, tr, dl { break-inside: avoid; }
        body { max-width: none; margin: 0; } .wide { overflow: visible; }
        table { font-size: 10px; } td { white-space: normal; } }
"""

# Characters of text from which a cell of a table is wrapped.
_LONG = 80


class Markup(str):
    """Text that is HTML already."""


def document(title: str, lead: str, sections: Iterable[str]) -> str:
    """Returns a page of sections; `lead` and `sections` are HTML, `title` is text."""
    head = (
        f'<meta charset="utf-8"><title>{html.escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{_STYLE}</style>"
    )
    body = f"<h1>{html.escape(title)}</h1>\n<p class=lead>{lead}</p>\n" + "\n".join(sections)
    return f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body>{body}\n</body></html>\n'


def section(title: str, *parts: str) -> str:
    """Returns a section; `title` is text, `parts` are HTML."""
    return f"<section><h2>{html.escape(title)}</h2>{''.join(parts)}</section>"


def figures(*parts: str) -> str:
    """Returns figures next to each other, as many as fit."""
    return f'<div class="splits">{"".join(parts)}</div>'


def figure(caption: str, drawn: str, note: str = "") -> str:
    """Returns a chart or a table under its caption; `caption` and `note` are text."""
    below = f'<p class="note">{html.escape(note)}</p>' if note else ""
    return f"<figure><figcaption>{html.escape(caption)}</figcaption>{drawn}{below}</figure>"


def table(
    head: Sequence[str], rows: Iterable[Sequence[str]], *, right: Collection[int] = ()
) -> str:
    """Returns a table that scrolls if it is too wide. Cells are text, or `Markup`; columns of the
    indices in `right` are aligned there."""
    lines = [_row("th", head, right), *(_row("td", row, right) for row in rows)]
    return f'<div class="wide"><table>{"".join(lines)}</table></div>'


def _row(tag: str, cells: Sequence[str], right: Collection[int]) -> str:
    shown = (
        f"<{tag}{_class(cell, n in right)}>{escape(cell)}</{tag}>" for n, cell in enumerate(cells)
    )
    return f"<tr>{''.join(shown)}</tr>"


def _class(cell: str, on_the_right: bool) -> str:
    if on_the_right:
        return " class=right"
    return " class=long" if len(cell) > _LONG and not isinstance(cell, Markup) else ""


def escape(text: str) -> str:
    """Returns the text escaped, unless it is `Markup`."""
    return text if isinstance(text, Markup) else html.escape(text)


def tiles(pairs: Iterable[tuple[str, str]]) -> str:
    """Returns large figures, each under what it is."""
    drawn = (f"<div>{html.escape(name)}<b>{escape(value)}</b></div>" for name, value in pairs)
    return f'<div class="tiles">{"".join(drawn)}</div>'

"""The frame of HTML pages: one file that needs nothing else, in which names from outside are only ever text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from chainfold.escape import visible

STYLE = """
:root { color-scheme: light dark; --ink: #1b2330; --dim: #5b6675; --line: #d9dee6; --paper: #fff; --card: #f6f8fa; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6eaf0; --dim: #a3aebc; --line: #333c48; --paper: #12161c; --card: #1a2029; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 76rem; padding: 1.5rem 1.25rem 4rem; background: var(--paper); color: var(--ink);
  font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.5rem; margin: 0 0 1rem; overflow-wrap: anywhere; }
h2 { font-size: 1.15rem; margin: 2.5rem 0 .5rem; }
h3 { font-size: 1rem; margin: 0 0 .5rem; overflow-wrap: anywhere; }
p { margin: .25rem 0 .75rem; }
table { border-collapse: collapse; }
th, td { padding: .15rem .6rem .15rem 0; text-align: left; vertical-align: top; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.about th { color: var(--dim); font-weight: 400; white-space: nowrap; padding-right: 1.5rem; }
.wide { overflow-x: auto; }
"""

_DOCUMENT = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<h1>{title}</h1>
{body}
</body>
</html>
"""


def document(title: str, body: str, style: str, policy: str) -> str:
    """A page. `body` is HTML, `style` is appended to STYLE, `policy` allows what it loads and runs beside styles."""
    whole = f"default-src 'none'; style-src 'unsafe-inline'; {policy}; base-uri 'none'; form-action 'none'"
    return _DOCUMENT.format(title=text(title), body=body, style=f"{STYLE}{style}", policy=escape(whole))


def text(outside: str) -> str:
    """Text as HTML that shows it, control characters included."""
    return escape(visible(outside))


def row(*cells: tuple[str, str, str]) -> str:
    """A row of a table; a cell is (element, further HTML of its opening tag, text)."""
    return f"<tr>{''.join(f'<{name}{more}>{text(content)}</{name}>' for name, more, content in cells)}</tr>"


def table(head: Sequence[str], rows: Iterable[Sequence[str]], kind: str = "") -> str:
    """A table of texts with the class `kind`; the name of a column of numbers begins with >."""
    numbers = [' class="n"' if name.startswith(">") else "" for name in head]

    def made(element: str, cells: Sequence[str]) -> str:
        return row(*((element, number, cell) for number, cell in zip(numbers, cells, strict=True)))

    names, body = made("th", [name.removeprefix(">") for name in head]), "".join(made("td", cells) for cells in rows)
    return wide(f'<table class="{kind}"><thead>{names}</thead><tbody>{body}</tbody></table>')


def wide(content: str) -> str:
    """HTML that scrolls sideways where the window is narrow."""
    return f'<div class="wide">{content}</div>'

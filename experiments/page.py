"""What the pages of both experiments share: cells of tables in words, HTML elements, Markdown tables."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from textwrap import fill

from chainfold.cli import html


def cell_text(cell: object) -> str:
    """A cell in words: whole numbers with their thousands, nothing as a dash."""
    if cell is None or cell == "":
        return "–"
    return f"{cell:,}" if isinstance(cell, int) and not isinstance(cell, bool) else str(cell)


def html_table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """An HTML table; the name of a column of numbers begins with >."""
    return html.table(head, ([cell_text(cell) for cell in cells] for cells in rows))


def paragraph(text: str, kind: str = "") -> str:
    return f'<p class="{kind}">{escape(text)}</p>' if kind else f"<p>{escape(text)}</p>"


def bullets(sentences: Iterable[str]) -> str:
    items = "".join(f"<li>{escape(sentence)}</li>" for sentence in sentences)
    return f"<ul>{items}</ul>" if items else ""


def details(title: str, content: str) -> str:
    """HTML that is shown when its title is clicked."""
    return f"<details><summary>{escape(title)}</summary>{content}</details>"


def image(pictures: Mapping[str, str], name: str, alt: str) -> str:
    """An SVG as an image within the page: nothing in it can run, and its names meet no others."""
    if name not in pictures:
        return ""
    data = base64.b64encode(pictures[name].encode()).decode()
    return f'<figure><img src="data:image/svg+xml;base64,{data}" alt="{escape(alt)}"></figure>'


def markdown_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    body = [f"| {' | '.join(columns)} |", f"|{'---|' * len(columns)}"]
    return "\n".join([*body, *(f"| {' | '.join(row)} |" for row in rows)])


def wrapped(text: str) -> str:
    """A paragraph of Markdown."""
    return fill(text, 120, break_long_words=False, break_on_hyphens=False)

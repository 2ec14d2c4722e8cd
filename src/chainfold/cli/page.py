"""The HTML page of `chainfold inspect`: what a model is, its transitions, its strongest weights, and a search.

It is one file that needs nothing else, in which names from outside are only ever text.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from chainfold.escape import visible
from chainfold.model.inspection import summary

_MOST_IN_MAP = 64  # labels in the map of transitions
_MOST_WRITTEN = 16  # labels of a map whose weights are written into it
_STRONGEST = 0.6  # of the colour, where the weight is largest: what is written over it stays legible
_MOST_NAMES = 40  # labels or outlines in one line

_STYLE = """
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

:root { --for: 37, 99, 235; --against: 217, 83, 25; }
@media (prefers-color-scheme: dark) { :root { --for: 90, 150, 255; --against: 255, 130, 70; } }
p { color: var(--dim); }
td { overflow-wrap: anywhere; }
.map { border-collapse: separate; border-spacing: 2px; font-size: .8rem; }
.map th { font-weight: 500; padding: 0 .4rem; white-space: nowrap; max-width: 12rem; overflow: hidden;
  text-overflow: ellipsis; text-align: right; }
.map thead th { writing-mode: vertical-rl; transform: rotate(180deg); max-height: 12rem; text-align: left;
  vertical-align: bottom; padding: .4rem 0; }
.map td { min-width: 1.5rem; height: 1.5rem; padding: 0 .3rem; border-radius: 3px; text-align: center;
  white-space: nowrap; font-variant-numeric: tabular-nums;
  background: rgba(var(--colour, 128, 128, 128), var(--much, .06)); }
.map td.corner { background: none; }
.f { --colour: var(--for); }
.a { --colour: var(--against); }
.map td.x { color: var(--dim);
  background: repeating-linear-gradient(45deg, transparent 0 4px, rgba(128, 128, 128, .35) 4px 6px); }
.key span { display: inline-block; width: 1.1em; height: 1.1em; margin: 0 .3em 0 1em; border-radius: 3px;
  vertical-align: -.2em; background: rgba(var(--colour), .6); }
.key span.x { background: repeating-linear-gradient(45deg, transparent 0 4px, rgba(128, 128, 128, .5) 4px 6px); }
.cards { display: grid; grid-template-columns: repeat(auto-fill, minmax(22rem, 1fr)); gap: 1rem; }
.card { background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: .8rem 1rem; }
.card table { width: 100%; }
.cards td:first-child { width: 100%; }
.card td.bar { min-width: 6rem; }
.card td.bar + td { padding-left: .6rem; }
.bar { position: relative; }
.bar::before { content: ""; position: absolute; inset: .15rem 0 .15rem auto; width: var(--share);
  background: rgba(var(--colour), .25); border-radius: 3px; }
.search { display: flex; gap: .75rem; flex-wrap: wrap; margin-bottom: .75rem; }
input, select { font: inherit; color: inherit; background: var(--card); border: 1px solid var(--line);
  border-radius: 6px; padding: .35rem .6rem; }
input { flex: 1 1 20rem; min-width: 0; }
#found { width: 100%; max-width: 60rem; }
#found th { border-bottom: 1px solid var(--line); }
"""

_SCRIPT = """
const data = JSON.parse(document.getElementById("weights").textContent);
const box = document.getElementById("text"), choice = document.getElementById("choice");
const body = document.querySelector("#found tbody"), said = document.getElementById("said");
const names = data.attributes.map(name => name.toLowerCase());
const most = 200;

function visible(text) {
  const escaped = one => "\\\\u" + one.charCodeAt(0).toString(16).padStart(4, "0");
  return text.replace(/[\\u0000-\\u001f\\u007f-\\u009f\\u2028-\\u202e\\u2066-\\u2069]/g, escaped);
}

function cell(row, text, kind) {
  const made = row.insertCell();
  made.textContent = visible(text);
  made.className = kind;
}

function show() {
  const wanted = box.value.toLowerCase(), label = choice.value;
  const matches = data.weights.filter(([a, j]) => names[a].includes(wanted) && (label === "" || String(j) === label));
  body.replaceChildren();
  for (const [a, j, weight] of matches.slice(0, most)) {
    const row = body.insertRow();
    cell(row, data.attributes[a], "");
    cell(row, data.labels[j], "");
    cell(row, weight === null ? "forbidden" : (weight < 0 ? "−" : "+") + Math.abs(weight).toFixed(4), "n");
    cell(row, data.counts[a] === null ? "" : data.counts[a].toLocaleString("en"), "n");
  }
  const some = matches.length > most ? "; the strongest " + most + " are shown" : "";
  said.textContent = matches.length.toLocaleString("en") + " weights match" + some + ".";
}

data.labels.forEach((name, j) => choice.add(new Option(visible(name), j)));
box.addEventListener("input", show);
choice.addEventListener("input", show);
show();
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

_BODY = """<table class="about">{about}</table>
<h2>Transitions</h2>
<p>{map_said}</p>
<p class="key">Weight of a transition: <span class="f"></span>for <span class="a"></span>against
<span class="x"></span>forbidden</p>
<div class="wide">{map}</div>
<h2>Attributes of each label</h2>
<p>The strongest for and against each label; the number of entries in training to the right, where it is known.</p>
<div class="cards">{cards}</div>
{edges}
<h2>Search</h2>
<p>{embedded_said}</p>
<div class="search"><input id="text" type="search" placeholder="Part of an attribute" aria-label="Part of an attribute">
<select id="choice" aria-label="Label"><option value="">All labels</option></select></div>
<p id="said" aria-live="polite"></p>
<div class="wide"><table id="found"><thead><tr><th>attribute</th><th>label</th><th class="n">weight</th>
<th class="n">entries</th></tr></thead><tbody></tbody></table></div>
<script type="application/json" id="weights">{data}</script>
<script>{script}</script>"""


def page(facts: dict[str, Any], embedded: Sequence[Mapping[str, Any]]) -> str:
    """The page of what `inspection.inspect` has found, with some of the strongest weights to search in."""
    shown, labels = _shown(facts["transitions"]), facts["labels"]
    some = f" The {len(shown)} of {len(labels):,} labels with the strongest ones are shown."
    total = facts["sizes"]["attribute_weights"]
    body = _BODY.format(
        about="".join(_row(("th", "", name), ("td", "", text)) for name, text in summary(facts, _MOST_NAMES)),
        map_said=f"From the label of the row to the label of the column.{some if len(shown) < len(labels) else ''}",
        map=_map(labels, facts["transitions"], shown),
        cards="".join(_card(of_label["label"], of_label, "attribute") for of_label in facts["strongest_attributes"]),
        edges=_edges(facts["strongest_edge_attributes"]),
        embedded_said=f"The {len(embedded):,} strongest of {total:,} weights of attributes are in this page.",
        data=_embedded(labels, embedded),
        script=_SCRIPT,
    )
    return _DOCUMENT.format(title=_text(facts["model"]), body=body, style=_STYLE, policy=escape(_policy()))


def _policy() -> str:
    """The page loads nothing, and runs its one script alone."""
    digest = base64.b64encode(hashlib.sha256(_SCRIPT.encode()).digest()).decode()
    return (
        f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; base-uri 'none'; "
        f"form-action 'none'"
    )


def _shown(transitions: Sequence[Sequence[float | None]]) -> list[int]:
    """The labels in the map: all, or those with the strongest transitions."""
    if len(transitions) <= _MOST_IN_MAP:
        return list(range(len(transitions)))
    strength = [
        max(abs(weight or 0.0) for weight in (*row, *column))
        for row, column in zip(transitions, zip(*transitions, strict=True), strict=True)
    ]
    return sorted(sorted(range(len(strength)), key=lambda j: -strength[j])[:_MOST_IN_MAP])


def _map(labels: Sequence[str], transitions: Sequence[Sequence[float | None]], shown: Sequence[int]) -> str:
    """A table whose cells are coloured by weight."""
    largest = max((abs(transitions[i][j] or 0.0) for i in shown for j in shown), default=0.0) or 1.0
    written = len(shown) <= _MOST_WRITTEN

    def cell(i: int, j: int) -> tuple[str, str, str]:
        weight = transitions[i][j]
        hint = f' title="{_text(f"{labels[i]} → {labels[j]}: {_weight(weight)}")}"'
        if weight is None:
            return "td", f' class="x"{hint}', "×"
        colour = f' class="{"f" if weight > 0 else "a"}" style="--much:{_STRONGEST * abs(weight) / largest:.3f}"'
        return "td", (colour if weight else "") + hint, f"{weight:+.1f}" if written else ""

    head = _row(("td", ' class="corner"', ""), *(("th", f' title="{_text(labels[j])}"', labels[j]) for j in shown))
    rows = (_row(("th", f' title="{_text(labels[i])}"', labels[i]), *(cell(i, j) for j in shown)) for i in shown)
    return f'<table class="map"><thead>{head}</thead><tbody>{"".join(rows)}</tbody></table>'


def _card(title: str, sides: Mapping[str, Any], what: str) -> str:
    """The strongest weights for something, strongest first, then those against it, strongest last."""
    found = [*sides["for"], *reversed(sides["against"])]
    largest = max((abs(row["weight"] or 0.0) for row in found), default=0.0) or 1.0
    rows = "".join(
        _row(
            ("td", "", row[what]),
            *([("td", "", f"{row['from']} → {row['to']}")] if "from" in row else []),
            ("td", _bar(row["weight"], largest), _weight(row["weight"])),
            ("td", ' class="n"', "" if row.get("count") is None else f"{row['count']:,}"),
        )
        for row in found
    )
    return f'<div class="card"><h3>{_text(title)}</h3><table>{rows or "<tr><td>none</td></tr>"}</table></div>'


def _bar(weight: float | None, largest: float) -> str:
    share = 1.0 if weight is None else abs(weight) / largest
    return f' class="n bar {"f" if (weight or -1.0) > 0 else "a"}" style="--share:{share:.0%}"'


def _edges(sides: Mapping[str, Any]) -> str:
    if not sides["for"] and not sides["against"]:
        return ""
    return f'<h2>Edge attributes</h2><div class="wide">{_card("Strongest of all", sides, "edge_attribute")}</div>'


def _embedded(labels: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> str:
    """Weights as JSON that cannot end the element it stands in."""
    number = {name: j for j, name in enumerate(labels)}
    attributes: dict[str, int] = {}
    counts, weights = [], []
    for row in rows:
        name, weight = row["attribute"], row["weight"]
        if name not in attributes:
            attributes[name] = len(attributes)
            counts.append(row["count"])
        weights.append([attributes[name], number[row["label"]], None if weight is None else round(weight, 6)])
    data = {"labels": labels, "attributes": list(attributes), "counts": counts, "weights": weights}
    text = json.dumps(data, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _weight(weight: float | None) -> str:
    return "forbidden" if weight is None else f"{weight:+.4f}"


def _text(outside: str) -> str:
    """Text as HTML that shows it, control characters included."""
    return escape(visible(outside))


def _row(*cells: tuple[str, str, str]) -> str:
    """A row of a table; a cell is (element, further HTML of its opening tag, text)."""
    return f"<tr>{''.join(f'<{name}{more}>{_text(content)}</{name}>' for name, more, content in cells)}</tr>"

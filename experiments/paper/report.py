"""The page of the paper's experiments: one HTML file that needs nothing else, and in which every name is only text.

The answer first: which of the paper's claims hold here. Then on what it rests, section by section: a sentence or two
made from the numbers, the figure, and the numbers themselves, folded away.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from html import escape
from typing import Any

from chainfold.cli import html
from experiments.formatting import count, digits, duration, power, size, times
from experiments.page import bullets, cell_text, details, html_table, image, paragraph
from experiments.paper.figures import name_of
from experiments.paper.run_plan import EMP, EMP_HELD, FB, MAIN, SCALED, SETTINGS, STREAM, STREAM_HELD, Line
from experiments.paper.series import (
    CASES,
    FLAT,
    OWN,
    Points,
    Results,
    apart,
    baseline,
    elements,
    holds,
    limits,
    measured,
    moved,
    points,
    seconds_of,
    section,
    slopes,
)

TITLE = "The entropy message passing paper, measured here"

_STYLE = """
:root { --yes: #00704f; --no: #b33c00; --part: #8a5a00; --none: #5b6675; --link: #0b5cad; }
@media (prefers-color-scheme: dark) {
  :root { --yes: #3ecf9f; --no: #ff8f5a; --part: #f0b840; --none: #a3aebc; --link: #7db7f5; } }
body { max-width: 64rem; font-size: 16px; }
h1 { font-size: 1.7rem; line-height: 1.25; margin: 0 0 .5rem; }
h2 { font-size: 1.25rem; margin: 2.75rem 0 .5rem; border-top: 1px solid var(--line); padding-top: 1.25rem; }
h3 { font-size: 1.05rem; margin: 1.75rem 0 .5rem; }
ul { margin: .25rem 0 .75rem; padding-left: 1.25rem; }
a { color: var(--link); }
.lead { font-size: 1.1rem; }
.dim, nav, summary, caption { color: var(--dim); }
nav a { margin-right: .9rem; white-space: nowrap; }
table { margin: .5rem 0 1rem; font-size: .92rem; }
th, td { padding: .3rem .9rem .3rem 0; border-bottom: 1px solid var(--line); }
th { font-weight: 600; }
.verdicts td:nth-child(1) { white-space: nowrap; }
.chip { display: inline-block; padding: 0 .55rem; border: 1.5px solid currentColor; border-radius: 1rem;
  font-weight: 600; white-space: nowrap; }
.yes { color: var(--yes); } .no { color: var(--no); } .part { color: var(--part); } .none { color: var(--none); }
.counts td { white-space: nowrap; }
.counts td.differs { background: rgba(217, 130, 25, .16); }
.counts s { color: var(--dim); }
figure { margin: .75rem 0; padding: .75rem; background: #fff; border: 1px solid var(--line); border-radius: 8px; }
figure img { display: block; width: 100%; height: auto; }
details { margin: .5rem 0 1rem; }
summary { cursor: pointer; }
@media print { body { max-width: none; font-size: 11pt; } figure, tr { break-inside: avoid; } nav { display: none; } }
"""

_CHIPS = {"confirmed": "yes", "refuted": "no", "in part": "part"}
_PAPER = (
    "V. M. Ilić, D. I. Mančev, B. T. Todorović and M. S. Stanković: Gradient Computation in Linear-Chain Conditional "
    "Random Fields Using the Entropy Message Passing Algorithm."
)
_NAMES = (
    "FB is forward-backward in logarithms, the paper's Algorithm 1; it keeps everything, recomputes the kernels, or "
    "spills its vectors to disk as well. EMP is the paper's Algorithm 2. FB scaled is forward-backward as it is done "
    "today, in scaled real numbers; checkpoint keeps few of its vectors; stream is Chainfold's own, one pass in memory "
    "that does not depend on the length."
)
_HOW = (
    "Every point is a fresh process. It holds its chain in memory, or reads it from a file that was first dropped from "
    "the system's cache where that is possible; loads its compiled code on two positions; and then times one "
    "evaluation of ln Z and ∇Z / Z, without the counts of the observed labels. Time in which other processes had all "
    "processors does not count, where the system tells.",
    "In a full run short points are measured several times, each in another process: the median counts, and bars go "
    "from the least to the most. Every round has to give the same ln Z and the same gradient to the last bit.",
    "From disk without a memory limit, the first reading is a real one. A second one, and what FB has spilled, come "
    "from the system's cache as long as there is memory for it, which the paper's machine had not. Under a limit both "
    "are real.",
    "Peak memory is what the whole process has resident at most during the evaluation, Python and its libraries "
    "included.",
    "Predicted memory is what the algorithm says that it keeps, and the sequence where it is held in memory.",
    "A point that by the shorter ones of its line would take too long, or more memory than there is, is not run, and "
    "neither is any longer one.",
    "Everything but time and memory is the same on every run: all seeds are fixed.",
)


_PAGING = (
    "The limit holds for the tables of FB, the sequence and what is spilled; Python and what one block needs come on "
    "top. By /proc/self/io all else was read from the disk, and by mincore the limit was kept.",
    "It differs from the paging of a system: chunks of up to 1 MB are read in one go, and written while the algorithm "
    "waits. A sequence on disk is read past the system's cache, and so are spilled vectors.",
)


def page(results: Results, pictures: Mapping[str, str]) -> str:
    """The page; `pictures` has the SVG text of each figure that was drawn, by name."""
    parts = {
        "verdicts": ("The paper's claims", _verdicts(results)),
        "setting": ("Machine and corpus: what differs from the paper", _setting(results)),
        "tables": ("(a) Tables 1 and 2: operations and registers", _tables(results)),
        "scaling": ("(b) Cases I to IV: time and memory", _scaling(results, pictures)),
        "numerics": ("(c) Numbers that leave the range of a double", _numerics(results, pictures)),
        "weights": ("(d) Many weights: EMP against stream", _weights(results, pictures)),
        "certificate": ("(e) The certificate of stream", _certificate(results, pictures)),
        "entropy": ("(f) Entropy: exact against sampling", _entropy(results, pictures)),
        "how": ("How it was measured", bullets(_HOW)),
        "files": ("Files", _files(pictures)),
    }
    links = "".join(f'<a href="#{at}">{escape(title.split(":")[0])}</a> ' for at, (title, _) in parts.items())
    body = "\n".join(f'<h2 id="{at}">{escape(title)}</h2>\n{text}' for at, (title, text) in parts.items())
    return html.document(TITLE, f"{_lead(results)}\n<nav>{links}</nav>\n{body}", _STYLE, "img-src data:")


def _percent(share: float | None) -> str | None:
    return None if share is None else f"{100 * share:.1f} %"


def _sized(number: float | None) -> str | None:
    return None if number is None else size(number)


def _lead(results: Results) -> str:
    found = Counter(str(one["verdict"]) for one in elements(results, "verdicts") if one["case"] != OWN)
    words = [*_CHIPS, *(verdict for verdict in found if verdict not in _CHIPS)]
    told = ", ".join(f"{found[verdict]} {verdict}" for verdict in words if found[verdict])
    total = sum(found.values())
    claims = f"Of {total} claims of the paper: {told}." if total else "No claim was judged."
    quick = (
        " This was a quick run: short sequences, each measured once." if section(results, "about").get("quick") else ""
    )
    best = _stream(points(results))
    return paragraph(_PAPER, "dim") + paragraph(f"{claims}{quick}", "lead") + (paragraph(best, "lead") if best else "")


def _code(text: str) -> str:
    """What stands between backticks is a name of the program."""
    return re.sub("`([^`]*)`", r"<code>\1</code>", text)


def _verdicts(results: Results) -> str:
    def row(one: Mapping[str, Any]) -> str:
        chip = f'<span class="chip {_CHIPS.get(one["verdict"], "none")}">{escape(cell_text(one["verdict"]))}</span>'
        case, claim, evidence = (_code(escape(cell_text(one[key]))) for key in ("case", "claim", "evidence"))
        return f"<tr><td>{case}</td><td>{claim}</td><td>{chip}</td><td>{evidence}</td></tr>"

    def table(said: str, rows: str) -> str:
        head = f"<tr><th>case</th><th>{said}</th><th>here</th><th>evidence</th></tr>"
        return f'<div class="wide"><table class="verdicts"><thead>{head}</thead><tbody>{rows}</tbody></table></div>'

    every = elements(results, "verdicts")
    theirs = "".join(row(one) for one in every if one["case"] != OWN)
    ours = "".join(row(one) for one in every if one["case"] == OWN)
    about = section(results, "corpus", "settings", MAIN)
    sizes = f" (N = {about['n_labels']}, M = {about['weights']})" if about else ""
    text = (
        f"Times and memory are those of {SETTINGS[MAIN].title}{sizes}, the setting that is kindest to EMP: it works on "
        "all M components at every position. The other settings are further down. As in the paper, features are those "
        "of a conditionally trained hidden Markov model: a position's attributes with its label, and transitions."
    )
    return (paragraph(text) + table("the paper says", theirs) if theirs else paragraph("No claim was judged.")) + (
        f"<h3>And ours</h3>{table('chainfold says', ours)}" if ours else ""
    )


def _setting(results: Results) -> str:
    about, corpus = section(results, "about"), section(results, "corpus")
    machine = section(about, "machine")
    memory = _sized(machine.get("memory")) or "unknown"
    swap = "no swap" if machine.get("swap") == 0 else f"{_sized(machine.get('swap')) or 'unknown'} of swap"
    named = {"Python": machine.get("python"), "NumPy": machine.get("numpy"), "Numba": machine.get("numba")}
    software = {"chainfold": about.get("chainfold"), **named}
    facts = {
        "machine": f"{machine.get('processor') or '–'}, {machine.get('cores') or '–'} cores, {memory} memory, {swap}",
        "system": machine.get("system"),
        "software": ", ".join(f"{name} {version}" for name, version in software.items() if version),
        "corpus": corpus.get("title"),
        "file": corpus.get("file"),
        "rows": corpus.get("rows"),
        "longest sequence": f"{count(about.get('max_length') or 0)} positions",
        "date": about.get("date"),
    }
    shown = "".join(
        f"<tr><th>{escape(name)}</th><td>{escape(cell_text(fact))}</td></tr>" for name, fact in facts.items() if fact
    )
    differs = [
        _CORPORA.get(corpus.get("kind") or "", "The corpus is not known.").format(
            rows=cell_text(corpus.get("rows")), surrogate=cell_text(corpus.get("surrogate"))
        ),
        "The paper does not say which labels and attributes it used; here there are the settings below.",
        f"The paper's machine had 3 GB of memory and an Intel Core 2 Duo at 2.33 GHz; this one has {memory}. "
        f"{section(about, 'limit').get('sentence') or ''}",
        "Numbers here have 64 bits; the paper's registers have 32.",
    ]
    head = (
        "setting",
        "attributes",
        ">labels",
        ">attributes",
        ">active",
        ">weights",
        ">bytes a position",
        ">right in training",
    )
    rows = [
        (
            one["title"],
            one["described"],
            one["n_labels"],
            one["attributes"],
            digits(one["active"]),
            one["weights"],
            digits(one["bytes_a_position"]),
            _percent(section(one, "training").get("accuracy")),
        )
        for one in section(corpus, "settings").values()
    ]
    settings = html_table(head, rows) if rows else ""
    return f'<div class="wide"><table class="about">{shown}</table></div>{bullets(differs)}{settings}'


_CORPORA = {
    "kdd": "The paper took the KDD corpus of 5 million connections, and concatenated it with itself for longer "
    "sequences. Here it is a file of {rows} of them, brought to {surrogate} by repeating most of its rows in place, a "
    "surrogate whose neighbours are more alike than they were; it is concatenated likewise.",
    "kdd-full": "The corpus is the paper's, KDD, concatenated with itself for longer sequences as there.",
    "synthetic": "The paper took the KDD corpus; here it is an invented log of network connections, concatenated with "
    "itself for longer sequences as there.",
}


def _tables(results: Results) -> str:
    tables = section(results, "tables")
    titles = {"1": "Table 1: Algorithm 1, forward-backward", "2": "Table 2: Algorithm 2, EMP"}
    made = [f"<h3>{title}</h3>{_counts(tables[key])}" for key, title in titles.items() if tables.get(key)]
    if not made:
        return paragraph("Not counted.")
    text = (
        "Both algorithms were run as printed, counting what is executed. In each cell stands the paper's formula, and "
        "the count; where the formula is not what its algorithm does, it is struck out, and the one in bold is."
    )
    return paragraph(text) + "".join(made)


def _counts(table: Mapping[str, Any]) -> str:
    cells = {(cell["row"], cell["column"]): cell for cell in table["cells"]}
    cells |= {("asymptotic", cell["column"]): cell for cell in table["asymptotic"]}

    def made(row: str, column: str) -> str:
        cell = cells.get((row, column))
        if cell is None:
            return "<td></td>"
        printed, counted, correct = cell["printed"], cell.get("counted"), cell["correct"]
        wrong = correct is not None or (counted is not None and cell["formula"] != counted)
        text = escape(printed)
        if wrong:
            text = ("" if printed == "-" else f"<s>{text}</s> ") + f"<b>{escape(correct or '?')}</b>"
        if counted is not None and (str(counted) not in ("0", printed) or (wrong and correct is None)):
            text += f" = {counted:,}"
        return f'<td class="differs">{text}</td>' if wrong else f"<td>{text}</td>"

    head = "".join(f"<th>{escape(column)}</th>" for column in table["columns"])
    rows = "".join(
        f"<tr><th>{escape(row)}</th>{''.join(made(row, column) for column in table['columns'])}</tr>"
        for row in (*table["rows"], "asymptotic")
    )
    at = ", ".join(f"{name} = {number}" for name, number in table["sizes"].items())
    why = "".join(
        f"<li><b>{escape(row)}, {escape(column)}.</b> {escape(cell['why'])}</li>"
        for (row, column), cell in cells.items()
        if cell["why"]
    )
    caption = f"<caption>Counted at {escape(at)}.</caption>"
    table_ = f'<table class="counts">{caption}<thead><tr><th></th>{head}</tr></thead><tbody>{rows}</tbody></table>'
    return f'<div class="wide">{table_}</div>' + (f"<ul>{why}</ul>" if why else "")


def _scaling(results: Results, pictures: Mapping[str, str]) -> str:
    lines = points(results)
    limit = section(results, "about", "limit").get("sentence") or "Nothing was run under a memory limit."
    cases = [_case(case, lines) for case in CASES]
    best = _stream(lines)
    within = [limit, *(_PAGING if limits(results) else ()), *(_within(results, limit) for limit in limits(results))]
    base = f"A process takes {size(baseline(results))} before it holds anything of a chain." if lines else ""
    everything = sorted(elements(results, "scaling", "points"), key=lambda point: point["limit"] or 0)
    return "".join(
        (
            paragraph(_NAMES, "dim"),
            "<h3>The paper's Figure 3 again</h3>",
            bullets([*cases, *([best] if best else [])]),
            image(pictures, "cases", "Time and memory against the length in Cases I to IV"),
            "<h3>Under a memory limit</h3>",
            bullets(within),
            image(pictures, "limit", "Time a position against the length, under each memory limit"),
            "<h3>In each setting</h3>",
            bullets(_rates(results)),
            image(pictures, "settings", "Time a position against the length in each setting"),
            "<h3>Memory, measured and predicted</h3>",
            bullets([sentence for sentence in (base, *_growth(results)) if sentence]),
            image(pictures, "memory", "Bytes a position, measured and predicted"),
            details(f"All {len(everything)} points", _points(everything)) if everything else "",
        )
    )


def _both(first: Points | None, second: Points | None) -> list[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """The points of two lines at the same length."""
    other = {point["positions"]: point for point in measured(second)}
    return [(point, other[point["positions"]]) for point in measured(first) if point["positions"] in other]


def _took(point: Mapping[str, Any]) -> str:
    memory = f" and {size(point['peak_rss'])}" if point["peak_rss"] else ""
    return f"{duration(seconds_of(point))}{memory}"


def _against(ratio: float) -> str:
    """How a time compares with another, of which it is so many times."""
    if 0.95 < ratio < 1.05:
        return "about as fast"
    return f"{times(ratio)} times slower" if ratio > 1 else f"{times(1 / ratio)} times faster"


def _case(case: str, lines: Mapping[Line, Points]) -> str:
    fb, emp = CASES[case]
    pairs = _both(lines.get(fb), lines.get(emp))
    if not pairs:
        return f"Case {case}: {name_of(fb)} and EMP were not measured at the same length."
    one, other = pairs[-1]
    ratio = seconds_of(other) / seconds_of(one)
    won = [mine["positions"] for theirs, mine in pairs if seconds_of(mine) < seconds_of(theirs)]
    lengths = "the only length" if len(pairs) == 1 else f"{len(won) or 'none'} of {len(pairs)} lengths"
    often = f"EMP was faster at {lengths}" if won or len(pairs) > 1 else f"EMP was not faster at {lengths}"
    first = f", first at {count(min(won))} positions" if won and len(pairs) > 1 else ""
    return (
        f"Case {case}: at {count(one['positions'])} positions {name_of(fb)}, took {_took(one)}, and {name_of(emp)}, "
        f"{_took(other)}: EMP is {_against(ratio)}. {often}{first}."
    )


def _stream(lines: Mapping[Line, Points]) -> str | None:
    """What the one pass of stream takes, beside the two algorithms of the paper."""
    against = []
    for line in (FB, EMP):
        pairs = _both(lines.get(line), lines.get(STREAM))
        if pairs:
            theirs, mine = pairs[-1]
            against.append(
                f"{_took(mine)} at {count(mine['positions'])} positions, where {name_of(line)}, took {_took(theirs)}, "
                f"{times(seconds_of(theirs) / seconds_of(mine))} times as long"
            )
    return f"Stream reads the sequence once, from disk: {'; '.join(against)}." if against else None


def _within(results: Results, limit: int) -> str:
    """What each line reached under a memory limit, and what it moved there."""
    said = []
    for line, of_line in points(results, limit=limit).items():
        good = measured(of_line)
        failed = next((point for point in of_line if point["outcome"] != "measured"), None)
        text = "never measured"
        if good:
            rate, bytes_moved = (of(good[-1]) / good[-1]["positions"] for of in (seconds_of, moved))
            text = f"{duration(rate)} a position at {count(good[-1]['positions'])}, {bytes_moved:.0f} bytes moved"
        if failed:
            text += f", {failed['outcome']} at {count(failed['positions'])}"
        said.append(f"{name_of(line)}, {text}")
    return f"Within {size(limit)}: {'; '.join(said)}."


def _rates(results: Results) -> list[str]:
    sentences = []
    for setting, about in SETTINGS.items():
        lines, said = points(results, setting), []
        for line in (FB, EMP_HELD, STREAM_HELD, SCALED):
            good = measured(lines.get(line))
            if good:
                rate = seconds_of(good[-1]) / good[-1]["positions"]
                said.append(f"{name_of(line).split(',')[0]} {duration(rate)} (at {count(good[-1]['positions'])})")
            elif lines.get(line):
                said.append(f"{name_of(line).split(',')[0]} {lines[line][0]['outcome']}")
        if said:
            sentences.append(f"{about.title}, time a position: {', '.join(said)}.")
    return sentences


def _growth(results: Results) -> list[str]:
    found = slopes(results)
    still = {line: grown for line, (grown, predicted) in found.items() if predicted < FLAT}
    flat = [name_of(line) for line, grown in still.items() if grown < FLAT]
    sentences = [f"By less than {FLAT:.0f} bytes a position grow: {'; '.join(flat)}."] if flat else []
    more = [f"{name_of(line)}, {grown:.1f}" for line, grown in still.items() if grown >= FLAT]
    if more:
        text = "Not to grow, but growing by so many bytes a position over these lengths"
        sentences.append(f"{text}: {'; '.join(more)}. A file that is read has some megabytes of itself in memory.")
    away = {line: abs(grown / predicted - 1) for line, (grown, predicted) in found.items() if predicted >= FLAT}
    if away:
        worst = max(away, key=lambda line: away[line])
        text = f"The others grow as predicted to within {digits(100 * away[worst])} %, which is {name_of(worst)}."
        sentences.append(f"{text} Growth is the slope by least squares over the longer half of the lengths.")
    return sentences


def _points(every: Points) -> str:
    times_of = (">seconds", ">of the processor", ">rounds")
    bytes_of = (">peak", ">predicted", ">within the limit", ">read from disk", ">written")
    head = ("setting", "line", ">positions", "memory limit", *times_of, *bytes_of, "outcome")
    rows = [
        (
            point["setting"],
            name_of(Line(point["engine"], point["held"])),
            point["positions"],
            "none" if point["limit"] is None else size(point["limit"]),
            digits(seconds_of(point), 3) if point["seconds"] else None,
            digits(point["cpu_seconds"], 3) if point.get("cpu_seconds") else None,
            len(point["seconds"]) or None,
            _sized(point["peak_rss"]),
            _sized(point["predicted_bytes"]),
            *(_sized(point.get(name)) for name in ("resident", "disk_read", "disk_written")),
            f"{point['outcome']}: {point['reason']}" if point["reason"] else point["outcome"],
        )
        for point in every
    ]
    return html_table(head, rows)


def _numerics(results: Results, pictures: Mapping[str, str]) -> str:
    chains, worst = elements(results, "numerics", "chains"), _stable(results)
    if not chains:
        return paragraph("Not measured.")
    sentences = []
    for chain in chains:
        broke = [f"{name}: {how['how']} at {how['length']:,} positions" for name, how in chain["breaks"].items() if how]
        longest = max(chain["lengths"], default=0)
        told = "; ".join(broke) or f"nothing leaves the range to {longest:,} positions"
        sentences.append(f"{chain['title']} – {told}.")
    if worst is not None:
        sentences.append(
            f"The methods that never leave the range are within {power(worst)} of a reference with "
            f"{section(results, 'numerics').get('digits')} digits and no bounds, relatively, in ln Z and every count."
        )
    head = ("chain", "method", ">positions", ">error of ln Z", ">error of the counts", "status")
    rows = [
        (chain["name"], name, length, *(None if error is None else power(error) for error in errors), status)
        for chain in chains
        for name, method in chain["methods"].items()
        for length, *errors, status in zip(
            chain["lengths"], method["log_z_error"], method["count_error"], method["status"], strict=True
        )
    ]
    picture = image(pictures, "numerics", "Errors of each method against the length")
    return bullets(sentences) + picture + details("All errors", html_table(head, rows))


def _stable(results: Results) -> float | None:
    """The worst relative error of the methods that never break, over all chains and lengths."""
    errors = [
        error
        for chain in elements(results, "numerics", "chains")
        for name, method in chain["methods"].items()
        if not chain["breaks"].get(name)
        for error in (*method["log_z_error"], *method["count_error"])
        if error is not None
    ]
    return max(errors, default=None)


def _weights(results: Results, pictures: Mapping[str, str]) -> str:
    every = elements(results, "weights", "points")
    if not every:
        return paragraph("Not measured.")
    sentences = [
        f"{n} labels and {found.weights:,} weights: EMP takes {duration(found.emp)} a position and stream "
        f"{duration(found.stream)}, {found.times} times apart."
        for n, found in apart(results).items()
    ]
    if any(found.seen <= 0.99 for found in apart(results).values()):
        sentences.append(
            "Where there are many weights, EMP was timed on a chain too short for all of them to occur, and what has "
            "not occurred costs it less: its time there is a lower bound."
        )
    head = (">labels", ">attributes", ">active", ">weights", "engine", ">positions", ">time a position", ">peak memory")
    rows = [
        (
            *(point[key] for key in ("labels", "attributes", "active", "weights", "engine", "positions")),
            None if point["nanoseconds"] is None else duration(1e-9 * point["nanoseconds"]),
            _sized(point["peak_rss"]),
        )
        for point in every
    ]
    picture = image(pictures, "weights", "Time a position of EMP and stream against the number of weights")
    return bullets(sentences) + picture + details("All points", html_table(head, rows))


def _certificate(results: Results, pictures: Mapping[str, str]) -> str:
    chains, bound = elements(results, "certificate", "chains"), elements(results, "certificate", "bound")
    if not chains and not bound:
        return paragraph("Not measured.")
    tolerance = section(results, "certificate").get("tolerance") or 0
    text = (
        "Stream looks ahead of a boundary until whatever may follow can change what it knows there "
        f"by no more than a tolerance, {power(tolerance)} unless said otherwise: then the boundary is certified."
    )
    ahead = [
        (
            *(chain[key] for key in ("title", "weights", "boundaries")),
            *(None if chain[key] is None else digits(chain[key]) for key in ("median", "mean")),
            *(chain[key] for key in ("max", "not_certified")),
        )
        for chain in chains
    ]
    kept = sum(holds(row) for row in bound)
    told = f"The error was within the tolerance, but for rounding, in {kept} of {len(bound)} trials." if bound else ""
    looked = [
        (chain["title"], chain["weights"], chain["boundaries"], length, many)
        for chain in chains
        for length, many in zip(chain["lookahead"], chain["count"], strict=True)
    ]
    errors = ("worst_error", "median_error", "count_error")
    tried = [
        (
            *(row[key] for key in ("setting", "weights")),
            power(row["tolerance"]),
            row["boundaries"],
            None if row["lookahead_mean"] is None else digits(row["lookahead_mean"]),
            *(None if row[key] is None else power(row[key]) for key in errors),
            "yes" if holds(row) else "no",
        )
        for row in bound
    ]
    head = ("setting", "weights", ">tolerance", ">boundaries", ">mean lookahead", ">worst error", ">median error")
    first = html_table(("chain", "weights", ">boundaries", ">lookahead", ">certified there"), looked)
    second = html_table((*head, ">error of the counts", "within"), tried)
    picture = image(pictures, "certificate", "Boundaries certified against the lookahead; errors against tolerance")
    names = ("chain", "weights", ">boundaries", ">median lookahead", ">mean", ">most", ">not certified")
    folded = details("How far ahead", first) + details("Errors and tolerances", second)
    return (
        paragraph(text)
        + (html_table(names, ahead) if ahead else "")
        + (paragraph(told) if told else "")
        + picture
        + folded
    )


def _entropy(results: Results, pictures: Mapping[str, str]) -> str:
    about = section(results, "entropy")
    exact, seconds = section(about, "exact"), section(about, "seconds")
    if not exact:
        return paragraph("Not measured.")
    ways = ", ".join(f"{name} {digits(h, 10)} nats" for name, h in exact.items())
    sentences = [f"The labels of {count(about.get('positions') or 0)} positions ({about.get('title') or ''}): {ways}."]
    if not about.get("title"):
        sentences = [f"The labels of {count(about.get('positions') or 0)} positions: {ways}."]
    columns = ("samples", "estimates", "errors")
    rows = list(zip(*(about.get(key) or [] for key in columns), strict=False))
    if rows and None not in rows[-1]:
        samples, estimate, error = rows[-1]
        sentences.append(f"{samples:,} samples: {digits(estimate, 5)} nats, standard error {digits(error)}.")
    if seconds:
        told = ", ".join(f"{name} {duration(taken)}" for name, taken in seconds.items())
        sentences.append(f"Time: {told}. The entropy semiring is plain Python here, the others are compiled.")
    cells = [
        (samples, *(None if number is None else digits(number, 6) for number in numbers)) for samples, *numbers in rows
    ]
    table = html_table((">samples", ">estimate, nats", ">standard error"), cells)
    picture = image(pictures, "entropy", "Estimates from samples, and the exact entropy")
    return bullets(sentences) + picture + details("All estimates", table)


def _files(pictures: Mapping[str, str]) -> str:
    figures = ", ".join(f"{name}.svg and {name}.png" for name in pictures)
    told = [f"the figures: {figures}"] if figures else []
    return paragraph("Beside this page:") + bullets(
        ["results.json: all the numbers, from which the rest was made", *told]
    )

"""The picture of the demo: true labels, labels found, their probabilities, and the course of training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from chainfold.cli.demo_log import LABELS
from chainfold.system.files import written_whole

if TYPE_CHECKING:
    from chainfold.metrics import Scores
    from chainfold.training.online.prequential import Interval

_SHOWN = 1000  # positions
_INNER = 0.8  # of them, not too near the ends
_LEAST_SEEN = 12  # positions of a label that are visible
_INCHES, _DOTS = (16.0, 9.0), 100

# Okabe and Ito's colours, which colour-blind people can tell apart, and grey
_COLOURS = {"normal": "#dddddd", "scan": "#56b4e9", "flood": "#0072b2", "guess": "#e69f00", "takeover": "#000000"}
_WAYS = {"single rows": "#d55e00", "chain": "#009e73"}
_UNKNOWN = "#ffffff"
_LEGEND: dict[str, Any] = {
    "loc": "lower left",
    "bbox_to_anchor": (-0.01, 1.0),
    "frameon": False,
    "fontsize": 12.5,
    "handlelength": 1.2,
    "columnspacing": 1.6,
}

Labels = NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Story:
    """The data of the picture: tagged positions, and the scores and training of both models."""

    labels: tuple[str, ...]
    truth: Labels  # [T] -1 where unknown
    chain: Labels  # [T]
    single: Labels  # [T]
    posteriors: NDArray[np.float64]  # [T, N]
    scores: Mapping[str, Scores]  # by way
    training: Mapping[str, Mapping[str, Any]]
    online: Sequence[Interval]  # scores before training on the connections


def draw(path: Path, story: Story) -> None:
    """Write the picture as PNG."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=_INCHES, dpi=_DOTS, facecolor="white")
    here = busiest(story.truth, len(story.labels), _SHOWN)
    _titles(figure, story)
    grid = figure.add_gridspec(1, 2, width_ratios=(2.6, 1), left=0.08, right=0.985, top=0.81, bottom=0.075, wspace=0.2)
    left = grid[0].subgridspec(3, 1, height_ratios=(1.5, 1.5, 0.8), hspace=0.36)
    strips = figure.add_subplot(left[0])
    _strips(strips, story, here)
    _posteriors(figure.add_subplot(left[1], sharex=strips), story, here)
    _doubt(figure.add_subplot(left[2], sharex=strips), story, here)
    right = grid[1].subgridspec(3, 1, height_ratios=(1.35, 1.0, 1.0), hspace=0.62)
    _qualities(figure.add_subplot(right[0]), story)
    _objectives(figure.add_subplot(right[1]), story)
    _online(figure.add_subplot(right[2]), story)
    with written_whole(path) as file:
        figure.savefig(file, format="png", metadata={"Software": None})


def busiest(truth: Labels, n_labels: int, size: int) -> slice:
    """The stretch with most labels, not too near its ends, and among those the one with fewest changes."""
    size = min(size, truth.size)
    inner = max(int(size * _INNER), 1)
    marks = np.stack([*(truth == label for label in range(n_labels)), np.diff(truth, prepend=truth[:1]) != 0])
    sums = np.pad(np.cumsum(marks, axis=1), ((0, 0), (1, 0)))
    within = sums[:, inner:] - sums[:, :-inner]
    seen, changes = (within[:-1] >= _LEAST_SEEN).sum(axis=0), within[-1]
    best = int(np.argmax(seen * size - changes))
    low = min(max(best - (size - inner) // 2, 0), truth.size - size)
    return slice(low, low + size)


def _titles(figure: Any, story: Story) -> None:
    trained, tested = story.training["chain"]["positions"], story.scores["chain"].tokens
    chain, single = (f"{100 * story.scores[way].accuracy:.1f} %" for way in ("chain", "single rows"))
    title = "Attacks in a network log: labels with and without neighbouring rows"
    figure.text(0.015, 0.945, title, size=22, weight="bold")
    text = (
        f"A linear-chain CRF trained on {trained:,} connections, one long sequence. Of {tested:,} new ones it labels "
        f"{chain} right; each row alone, {single}."
    )
    figure.text(0.015, 0.905, text, size=13.5)


def _strips(axes: Any, story: Story, here: slice) -> None:
    """Labels as colours: the truth, and both ways."""
    from matplotlib.colors import ListedColormap
    from matplotlib.patches import Patch

    colours = [_UNKNOWN, *(_COLOURS[label] for label in story.labels)]
    rows = np.stack([story.truth[here], story.chain[here], story.single[here]]) + 1
    axes.imshow(
        rows,
        cmap=ListedColormap(colours),
        vmin=-0.5,
        vmax=len(colours) - 0.5,
        aspect="auto",
        interpolation="nearest",
        extent=(here.start, here.stop, 3.0, 0.0),
    )
    axes.hlines([1.0, 2.0], here.start, here.stop, color="white", linewidth=8)
    axes.set_yticks([0.5, 1.5, 2.5], ["truth", "found by\nthe chain", "found by\nsingle rows"], size=12)
    axes.tick_params(left=False, bottom=False, labelbottom=False)
    for side in axes.spines.values():
        side.set_visible(False)
    patches = [Patch(facecolor=_COLOURS[label], label=label) for label in LABELS]
    axes.legend(handles=patches, ncols=len(LABELS), **_LEGEND)


def _posteriors(axes: Any, story: Story, here: slice) -> None:
    known = _known(story)
    columns = [story.posteriors[here, story.labels.index(label)] for label in known]
    places = np.arange(here.start, here.stop) + 0.5
    axes.stackplot(places, *columns, colors=[_COLOURS[label] for label in known], step="mid", linewidth=0)
    axes.set_ylim(0, 1)
    axes.set_ylabel("probability", size=12)
    axes.tick_params(labelbottom=False)
    _caption(axes, "Probability of each label, by the chain")


def _doubt(axes: Any, story: Story, here: slice) -> None:
    """The entropy of each position's label."""
    p = story.posteriors[here]
    bits = -np.sum(p * np.log2(np.maximum(p, 1e-300)), axis=1)
    axes.fill_between(np.arange(here.start, here.stop) + 0.5, bits, step="mid", color="#666666", linewidth=0)
    axes.set_ylim(0, max(1.0, 1.05 * float(bits.max())))
    axes.set_xlim(here.start, here.stop)
    axes.set_ylabel("entropy, bits", size=12)
    axes.set_xlabel("number of the connection in the log", size=12)
    axes.xaxis.set_major_formatter("{x:,.0f}")
    _caption(axes, "Entropy: high for a moment where an episode begins or ends")


def _qualities(axes: Any, story: Story) -> None:
    """F1 of each label."""
    known, height = _known(story), 0.38
    for k, (way, scores) in enumerate(story.scores.items()):
        f1 = [100 * scores.per_label[label].f1 for label in known]
        bars = axes.barh(np.arange(len(known)) + (k - 0.5) * height, f1, height, color=_WAYS[way], label=way)
        axes.bar_label(bars, fmt="%.1f", padding=3, size=10)
    axes.set_yticks(np.arange(len(known)), known)
    axes.invert_yaxis()
    axes.set_xlim(0, 115)
    axes.set_xticks(range(0, 101, 25))
    axes.set_xlabel("F1 of each label, %", size=12)
    axes.legend(ncols=2, **_LEGEND)
    _caption(axes, "")


def _objectives(axes: Any, story: Story) -> None:
    """The course of training."""
    for way, record in story.training.items():
        values = np.array(record["objective"]) / record["positions"]
        axes.plot(np.arange(1, values.size + 1), values, color=_WAYS[way], linewidth=2.5)
        place = {"xytext": (0, 7), "textcoords": "offset points", "ha": "right"}
        axes.annotate(way, (values.size, values[-1]), size=12.5, color=_WAYS[way], **place)
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter("{x:g}")
    axes.set_xlabel("iteration", size=12)
    axes.set_ylabel("loss per connection", size=12)
    _caption(axes, "Objective in training")


def _online(axes: Any, story: Story) -> None:
    """Accuracy before training on the connections."""
    places = [interval.positions / 1000 for interval in story.online]
    axes.plot(
        places, [100 * interval.accuracy for interval in story.online], color=_WAYS["chain"], linewidth=1, alpha=0.45
    )
    axes.plot(
        places, [100 * interval.running_accuracy for interval in story.online], color=_WAYS["chain"], linewidth=2.5
    )
    axes.set_xlim(0, places[-1])
    axes.set_ylim(min(100 * min(interval.accuracy for interval in story.online), 95.0) - 1.0, 100)
    axes.set_xlabel("thousand connections", size=12)
    axes.set_ylabel("correct, %", size=12)
    _caption(axes, "Online: accuracy before training on them")


def _known(story: Story) -> list[str]:
    """The labels, always in the same order."""
    return [label for label in LABELS if label in story.labels]


def _caption(axes: Any, text: str) -> None:
    axes.set_title(text, size=13, loc="left")
    axes.tick_params(labelsize=11.5)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)

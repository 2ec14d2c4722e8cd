"""Find attacks in a synthetic log of network connections: train, tag, evaluate, and draw a picture.

    python -m examples.demo [--rows T] [--output FOLDER]

Most connections are normal; some belong to a scan, a flood, password guessing or a takeover. A single row seldom shows
which, but the rows around it do: a linear-chain CRF uses both. The commands that are run are printed.
"""

from __future__ import annotations

import argparse
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.csv
from numpy.typing import NDArray

import chainfold as cf
from examples.network_log import ATTRIBUTES, LABELS, write_log

TRAIN = ["--attributes", ATTRIBUTES, "--max-iterations", "50"]
COMMANDS = {
    "Train a CRF on the log as one sequence.": ["train", "train.csv", *TRAIN, "-o", "attacks.model"],
    "Train on single rows, each a sequence of its own (a logistic regression).": [
        *("train", "train.csv", "--group", "number", *TRAIN, "-o", "rows.model")
    ],
    "Train in one pass; each row is tagged before it is trained on.": [
        *("learn", "train.csv", "--attributes", ATTRIBUTES, "--quiet"),
        *("--prequential", "online.csv", "-o", "online.model"),
    ],
    "Tag another log.": ["tag", "attacks.model", "test.csv", "--all-marginals", "--quiet", "-o", "tagged.csv"],
    "Tag it by single rows.": ["tag", "rows.model", "test.csv", "--quiet", "-o", "rows.csv"],
    "Evaluate the chain.": ["eval", "attacks.model", "test.csv"],
}
MORE = (
    "chainfold inspect attacks.model",
    "chainfold explain attacks.model test.csv --position 100",
    "chainfold watch attacks.model test.csv --alarm 'takeover>0.9'",
)
WAYS = {"single rows": "#d55e00", "chain": "#009e73"}
COLOURS = {"normal": "#dddddd", "scan": "#56b4e9", "flood": "#0072b2", "guess": "#e69f00", "takeover": "#000000"}
SHOWN = 1000  # positions in the picture
LEGEND: dict[str, Any] = {"loc": "lower left", "bbox_to_anchor": (-0.01, 1.0), "frameon": False, "fontsize": 12.5}

Labels = NDArray[np.int32]


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000, help="connections to train on (default: a million)")
    parser.add_argument("--output", type=Path, default=Path("chainfold-demo"), help="folder for all files")
    given = parser.parse_args(arguments)
    folder: Path = given.output
    folder.mkdir(parents=True, exist_ok=True)
    print(f"Writing {folder}/train.csv, {given.rows:,} connections, and test.csv, {given.rows // 5:,} others.")
    write_log(folder / "train.csv", given.rows, seed=0)
    write_log(folder / "test.csv", given.rows // 5, seed=1)
    for title, words in COMMANDS.items():
        run(folder, title, words)
    story = Story.read(folder)
    print("\nThe gain from the neighbours:", *table(story), sep="\n  ")
    draw(folder / "picture.png", story)
    print(
        f"\n{folder}/picture.png shows the labels and their probabilities. In {folder}, look further with",
        *MORE,
        sep="\n  ",
    )


def run(folder: Path, title: str, words: list[str]) -> None:
    """Run a command of chainfold in the folder, and print it with the seconds that it took."""
    print(f"\n{title}\n  chainfold {shlex.join(words)}", flush=True)
    begin = time.perf_counter()
    code = subprocess.run([sys.executable, "-m", "chainfold", *words], cwd=folder, check=False).returncode
    if code:
        sys.exit(code)
    print(f"  {time.perf_counter() - begin:.1f} seconds")


class Story(NamedTuple):
    """What the picture shows."""

    truth: Labels  # [T] numbers of LABELS
    found: dict[str, Labels]  # [T] by way
    posteriors: NDArray[np.float64]  # [T, labels]
    scores: dict[str, cf.Scores]
    training: dict[str, dict[str, Any]]  # the records of training
    online: NDArray[np.float64]  # [intervals, positions, accuracy, running accuracy]

    @classmethod
    def read(cls, folder: Path) -> Story:
        """The outputs of the commands."""
        tagged, rows, online = (pa.csv.read_csv(folder / name) for name in ("tagged.csv", "rows.csv", "online.csv"))
        truth = numbers(tagged["label"])
        found = {"single rows": numbers(rows["predicted"]), "chain": numbers(tagged["predicted"])}
        models = {"single rows": "rows.model", "chain": "attacks.model"}
        columns = [f"probability({label})" for label in LABELS]
        known = [tagged[name].to_numpy() if name in tagged.column_names else np.zeros(truth.size) for name in columns]
        return cls(
            truth,
            found,
            np.stack(known, axis=1),
            {way: scores_of(truth, labels) for way, labels in found.items()},
            {way: dict(cf.open_model(folder / name).training) for way, name in models.items()},
            np.stack([online[name].to_numpy() for name in ("positions", "accuracy", "running_accuracy")], axis=1),
        )


def numbers(column: Any) -> Labels:
    found: Labels = pa.compute.index_in(column, pa.array(LABELS)).to_numpy().astype(np.int32)
    return found


def scores_of(truth: Labels, found: Labels) -> cf.Scores:
    count = cf.Count(LABELS)
    count.add(truth, found, np.arange(truth.size) == 0)
    return count.scores()


def table(story: Story) -> list[str]:
    """Accuracy, F1 of each label, and the episodes of attack, by way."""
    lines = [f"{'':24}{'single rows':>12}{'chain':>12}{'truth':>12}"]
    lines.append(f"{'labelled correctly':24}" + "".join(f"{s.accuracy:12.1%}" for s in story.scores.values()))
    for label in LABELS:
        lines.append(
            f"{'F1 of ' + label:24}" + "".join(f"{s.per_label[label].f1:12.1%}" for s in story.scores.values())
        )
    counts = map(episodes, (*story.found.values(), story.truth))
    return [*lines, f"{'episodes of attack':24}" + "".join(f"{count:12,}" for count in counts)]


def episodes(labels: Labels) -> int:
    """Runs of one label other than normal."""
    return int(np.count_nonzero((np.diff(labels, prepend=0) != 0) & (labels != 0)))


# The picture


def draw(path: Path, story: Story) -> None:
    """Labels, probabilities and entropy of some positions; F1 of each label; training; accuracy online."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(16.0, 9.0), dpi=100, facecolor="white")
    accuracy = {way: f"{100 * scores.accuracy:.1f} %" for way, scores in story.scores.items()}
    title = "Attacks in a network log: labels with and without neighbouring rows"
    figure.text(0.015, 0.945, title, size=22, weight="bold")
    text = (
        f"A linear-chain CRF trained on {story.training['chain']['positions']:,} connections, one long sequence. Of "
        f"{story.truth.size:,} new ones it labels {accuracy['chain']} right; each row alone, {accuracy['single rows']}."
    )
    figure.text(0.015, 0.905, text, size=13.5)
    here = busiest(story.truth)
    grid = figure.add_gridspec(1, 2, width_ratios=(2.6, 1), left=0.08, right=0.985, top=0.81, bottom=0.075, wspace=0.2)
    left = grid[0].subgridspec(3, 1, height_ratios=(1.5, 1.5, 0.8), hspace=0.36)
    strips = figure.add_subplot(left[0])
    draw_labels(strips, story, here)
    draw_posteriors(figure.add_subplot(left[1], sharex=strips), story, here)
    draw_entropy(figure.add_subplot(left[2], sharex=strips), story, here)
    right = grid[1].subgridspec(3, 1, height_ratios=(1.35, 1.0, 1.0), hspace=0.62)
    draw_f1(figure.add_subplot(right[0]), story)
    draw_training(figure.add_subplot(right[1]), story)
    draw_online(figure.add_subplot(right[2]), story)
    figure.savefig(path, metadata={"Software": None})


def busiest(truth: Labels, size: int = SHOWN) -> slice:
    """The positions with most labels, and among those the ones with fewest changes."""
    size = min(size, truth.size)
    inner = max(size * 4 // 5, 1)  # not too near the ends
    marks = np.stack([*(truth == label for label in range(len(LABELS))), np.diff(truth, prepend=truth[:1]) != 0])
    sums = np.pad(np.cumsum(marks, axis=1), ((0, 0), (1, 0)))
    within = sums[:, inner:] - sums[:, :-inner]
    visible = (within[:-1] >= size // 80).sum(axis=0)
    low = int(np.argmax(visible * size - within[-1])) - (size - inner) // 2
    low = min(max(low, 0), truth.size - size)
    return slice(low, low + size)


def draw_labels(axes: Any, story: Story, here: slice) -> None:
    from matplotlib.colors import ListedColormap
    from matplotlib.patches import Patch

    rows = np.stack([labels[here] for labels in (story.truth, story.found["chain"], story.found["single rows"])])
    colours, extent = ListedColormap([COLOURS[label] for label in LABELS]), (here.start, here.stop, 3.0, 0.0)
    axes.imshow(
        rows, cmap=colours, vmin=-0.5, vmax=len(LABELS) - 0.5, aspect="auto", interpolation="nearest", extent=extent
    )
    axes.hlines([1.0, 2.0], here.start, here.stop, color="white", linewidth=8)
    axes.set_yticks([0.5, 1.5, 2.5], ["truth", "found by\nthe chain", "found by\nsingle rows"], size=12)
    axes.tick_params(left=False, bottom=False, labelbottom=False)
    axes.spines[:].set_visible(False)
    patches = [Patch(facecolor=COLOURS[label], label=label) for label in LABELS]
    axes.legend(handles=patches, ncols=len(LABELS), handlelength=1.2, columnspacing=1.6, **LEGEND)


def draw_posteriors(axes: Any, story: Story, here: slice) -> None:
    places, colours = np.arange(here.start, here.stop) + 0.5, list(COLOURS.values())
    axes.stackplot(places, story.posteriors[here].T, colors=colours, step="mid", linewidth=0)
    axes.set_ylim(0, 1)
    axes.set_ylabel("probability", size=12)
    axes.tick_params(labelbottom=False)
    caption(axes, "Probability of each label, by the chain")


def draw_entropy(axes: Any, story: Story, here: slice) -> None:
    p = story.posteriors[here]
    bits = -np.sum(p * np.log2(np.maximum(p, 1e-300)), axis=1)
    axes.fill_between(np.arange(here.start, here.stop) + 0.5, bits, step="mid", color="#666666", linewidth=0)
    axes.set_ylim(0, max(1.0, 1.05 * float(bits.max())))
    axes.set_xlim(here.start, here.stop)
    axes.set_ylabel("entropy, bits", size=12)
    axes.set_xlabel("number of the connection in the log", size=12)
    axes.xaxis.set_major_formatter("{x:,.0f}")
    caption(axes, "Entropy: high for a moment where an episode begins or ends")


def draw_f1(axes: Any, story: Story) -> None:
    for k, (way, scores) in enumerate(story.scores.items()):
        f1 = [100 * scores.per_label[label].f1 for label in LABELS]
        bars = axes.barh(np.arange(len(LABELS)) + 0.38 * (k - 0.5), f1, 0.38, color=WAYS[way], label=way)
        axes.bar_label(bars, fmt="%.1f", padding=3, size=10)
    axes.set_yticks(np.arange(len(LABELS)), LABELS)
    axes.invert_yaxis()
    axes.set_xlim(0, 115)
    axes.set_xticks(range(0, 101, 25))
    axes.set_xlabel("F1 of each label, %", size=12)
    axes.legend(ncols=2, handlelength=1.2, columnspacing=1.6, **LEGEND)
    caption(axes, "")


def draw_training(axes: Any, story: Story) -> None:
    for way, record in story.training.items():
        values = np.array(record["objective"]) / record["positions"]
        axes.plot(np.arange(1, values.size + 1), values, color=WAYS[way], linewidth=2.5)
        place = {"xytext": (0, 7), "textcoords": "offset points", "ha": "right"}
        axes.annotate(way, (values.size, values[-1]), size=12.5, color=WAYS[way], **place)
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter("{x:g}")
    axes.set_xlabel("iteration", size=12)
    axes.set_ylabel("loss per connection", size=12)
    caption(axes, "Objective in training")


def draw_online(axes: Any, story: Story) -> None:
    positions, accuracy, running = story.online.T
    for values, width, alpha in ((accuracy, 1.0, 0.45), (running, 2.5, 1.0)):
        axes.plot(positions / 1000, 100 * values, color=WAYS["chain"], linewidth=width, alpha=alpha)
    axes.set_xlim(0, positions[-1] / 1000)
    axes.set_ylim(min(100 * float(accuracy.min()), 95.0) - 1.0, 100)
    axes.set_xlabel("thousand connections", size=12)
    axes.set_ylabel("correct, %", size=12)
    caption(axes, "Online: accuracy before training on them")


def caption(axes: Any, text: str) -> None:
    axes.set_title(text, size=13, loc="left")
    axes.tick_params(labelsize=11.5)
    axes.spines[["top", "right"]].set_visible(False)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)

"""The weights of a model by name, as `Tagger.info` returns them and as the text that `Tagger.dump` writes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from chainfold.chain.vocabulary import label_names
from chainfold.model.file import model_bytes
from chainfold.model.model import Model
from chainfold.model.named_weights import attribute_names, state_weights, transition_weights


@dataclass(frozen=True)
class ParsedDump:
    """The content of a model, as `Tagger.info` returns it."""

    header: dict[str, str]  # type, size in bytes, and how many weights, labels and attributes there are
    labels: dict[str, str]  # the number of each label, as a text
    attributes: dict[str, str]  # the number of each attribute, as a text
    transitions: dict[tuple[str, str], float]  # {(from, to): weight}
    state_features: dict[tuple[str, str], float]  # {(attribute, label): weight}

    @classmethod
    def of(cls, model: Model) -> ParsedDump:
        """The dump of a model; weights that are zero are left out."""
        labels, attributes = label_names(model.vocabulary, model.layout.n_labels), attribute_names(model)
        header = {
            "type": "chainfold",
            "size": len(model_bytes(model)),
            "num_features": model.layout.size,
            "num_labels": len(labels),
            "num_attrs": len(attributes),
        }
        return cls(
            {name: str(value) for name, value in header.items()},
            {name: str(number) for number, name in enumerate(labels)},
            {name: str(number) for number, name in enumerate(attributes)},
            transition_weights(model),
            state_weights(model),
        )

    def lines(self) -> Iterator[str]:
        """The text of the dump, in CRFsuite's form."""
        numbered = [
            ("LABELS", {number: name for name, number in self.labels.items()}),
            ("ATTRIBUTES", {number: name for name, number in self.attributes.items()}),
        ]
        for title, entries in [("FILEHEADER", self.header), *numbered]:
            yield from (f"{title} = {{\n", *(f"  {key}: {text}\n" for key, text in entries.items()), "}\n", "\n")
        for kind, (title, weights) in enumerate(
            [("STATE_FEATURES", self.state_features), ("TRANSITIONS", self.transitions)]
        ):
            of = (f"  ({kind}) {left} --> {right}: {weight:f}\n" for (left, right), weight in weights.items())
            yield from (f"{title} = {{\n", *of, "}\n", "\n")

"""A BiLSTM-CRF for the chunks of CoNLL-2000, with embeddings of words and characters learnt from scratch, on the CPU.

    python examples/conll2000_bilstm_crf.py FOLDER [--epochs 8] [--threads 2] [--sentences N]

FOLDER has train.txt.gz and test.txt.gz. Prints the F1 of spans on the test set after each epoch. Only words are used,
not the parts of speech of the files.
"""

from __future__ import annotations

import argparse
import gzip
import random
import time
from pathlib import Path

import torch
from chainfold import Constraints
from chainfold.torch import CRF
from torch import Tensor, nn

Sentence = tuple[list[str], list[str]]  # words, tags


def read(path: Path) -> list[Sentence]:
    """Sentences of a file with a word, a part of speech and a chunk tag a line."""
    sentences: list[Sentence] = []
    with gzip.open(path, "rt") as file:
        for block in file.read().strip().split("\n\n"):
            rows = [line.split() for line in block.splitlines()]
            sentences.append(([row[0] for row in rows], [row[2] for row in rows]))
    return sentences


class Tagger(nn.Module):  # type: ignore[misc]
    """Embeddings of a word and, by a convolution, of its characters; a BiLSTM; a CRF."""

    def __init__(self, words: int, characters: int, tags: list[str]) -> None:
        super().__init__()
        self.words = nn.Embedding(words, 100, padding_idx=0)
        self.characters = nn.Embedding(characters, 25, padding_idx=0)
        self.convolution = nn.Conv1d(25, 50, 3, padding=1)
        self.lstm = nn.LSTM(150, 100, bidirectional=True, batch_first=True)
        self.scores = nn.Linear(200, len(tags))
        self.dropout = nn.Dropout(0.5)
        self.crf = CRF(len(tags), batch_first=True, constraints=Constraints.of(tags, "BIO"))

    def forward(self, words: Tensor, characters: Tensor) -> Tensor:
        """words: [B, T], characters: [B, T, C]. Returns emissions [B, T, N]."""
        letters = self.characters(characters).flatten(0, 1).transpose(1, 2)
        shapes = self.convolution(letters).amax(2).view(*words.shape, -1)
        hidden, _ = self.lstm(self.dropout(torch.cat([self.words(words), shapes], 2)))
        emissions: Tensor = self.scores(self.dropout(hidden))
        return emissions


def spans(tags: list[str]) -> set[tuple[int, int, str]]:
    """Chunks of a BIO sequence: first position, end, type."""
    found, first = set(), 0
    for t, tag in enumerate([*tags, "O"]):
        if t and tags[t - 1] != "O" and not tag.startswith("I-"):
            found.add((first, t, tags[first][2:]))
        if not tag.startswith("I-"):
            first = t
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--sentences", type=int, help="of either file, for a quick look")
    options = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(options.threads)
    training, test = (read(options.folder / name)[: options.sentences] for name in ("train.txt.gz", "test.txt.gz"))
    tags = sorted({tag for _, own in training + test for tag in own}, key=lambda tag: (tag[2:], tag))
    counts: dict[str, int] = {}
    for sentence, _ in training:
        for word in sentence:
            counts[word.lower()] = counts.get(word.lower(), 0) + 1
    known = sorted(word for word, count in counts.items() if count > 1)
    vocabulary = {word: number for number, word in enumerate(known, 2)}
    alphabet = sorted({letter for sentence, _ in training for word in sentence for letter in word})
    letters = {letter: number for number, letter in enumerate(alphabet, 2)}
    numbers = {tag: number for number, tag in enumerate(tags)}

    def batch(sentences: list[Sentence]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        length = max(len(words) for words, _ in sentences)
        words, gold = torch.zeros(2, len(sentences), length, dtype=torch.int64)
        characters = torch.zeros(len(sentences), length, 16, dtype=torch.int64)
        for s, (sentence, own) in enumerate(sentences):
            words[s, : len(sentence)] = torch.tensor([vocabulary.get(word.lower(), 1) for word in sentence])
            gold[s, : len(sentence)] = torch.tensor([numbers[tag] for tag in own])
            for t, word in enumerate(sentence):
                inside = [letters.get(letter, 1) for letter in word[:16]]
                characters[s, t, : len(inside)] = torch.tensor(inside)
        return words, characters, gold, words > 0

    model = Tagger(len(vocabulary) + 2, len(letters) + 2, tags)
    optimiser = torch.optim.Adam(model.parameters(), 2e-3)
    random.seed(0)
    training.sort(key=lambda sentence: len(sentence[0]))
    batches = [batch(training[at : at + 32]) for at in range(0, len(training), 32)]
    begun = time.perf_counter()
    for epoch in range(1, options.epochs + 1):
        model.train()
        random.shuffle(batches)
        for words, characters, gold, mask in batches:
            optimiser.zero_grad()
            loss = -model.crf(model(words, characters), gold, mask, reduction="mean")
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            optimiser.step()
        model.eval()
        right = predicted = expected = 0
        with torch.no_grad():
            for at in range(0, len(test), 64):
                sentences = test[at : at + 64]
                words, characters, _, mask = batch(sentences)
                decoded = model.crf.decode(model(words, characters), mask)
                for labels, (_, own) in zip(decoded, sentences, strict=True):
                    ours, theirs = spans([tags[label] for label in labels]), spans(own)
                    right, predicted, expected = (
                        right + len(ours & theirs),
                        predicted + len(ours),
                        expected + len(theirs),
                    )
        f1 = 200.0 * right / max(predicted + expected, 1)
        print(f"epoch {epoch}: F1 {f1:.2f}, {time.perf_counter() - begun:.0f} s", flush=True)


if __name__ == "__main__":
    main()

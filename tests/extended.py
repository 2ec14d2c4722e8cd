"""The truth at length: forward-backward in decimal numbers of 50 digits whose exponents have no bounds.

More than 128 bits, so that it also settles chains whose scores cancel; slow, about a million positions a minute.
"""

from __future__ import annotations

import decimal
from collections.abc import Callable
from decimal import Decimal
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chainfold import Chain, Evaluation, Model

DIGITS = 50
_CONTEXT = decimal.Context(prec=DIGITS, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN)
_ZERO, _ONE, _LEAST = Decimal(0), Decimal(1), Decimal("1e-120")
Row = list[Decimal]


class Exact(NamedTuple):
    """What forward-backward finds, by weight."""

    log_z: Decimal
    log_likelihood: Decimal | None
    expected: Row
    gradient: Row | None
    magnitude: Row  # of each expected count: with |value| for value

    def errors(self, found: Evaluation) -> NDArray[np.float64]:
        """[M] the error of each expected count, by the magnitude of its terms; those below 1e-120 may vanish."""
        with decimal.localcontext(_CONTEXT):
            pairs = zip(found.expected.tolist(), self.expected, self.magnitude, strict=True)
            return np.array([float(abs(Decimal(f) - e) / max(m, _LEAST)) for f, e, m in pairs])

    def log_z_error(self, found: Evaluation) -> float:
        """Absolute."""
        with decimal.localcontext(_CONTEXT):
            return float(abs(Decimal(found.log_z) - self.log_z))

    def log_likelihood_error(self, found: Evaluation) -> float:
        """Absolute."""
        assert found.log_likelihood is not None
        assert self.log_likelihood is not None
        with decimal.localcontext(_CONTEXT):
            return float(abs(Decimal(found.log_likelihood) - self.log_likelihood))


def exact(model: Model, chain: Chain) -> Exact:
    """log Z, log likelihood, expected counts and gradient of a chain without edge attributes, under a full layout."""
    with decimal.localcontext(_CONTEXT):
        return _Pass(model, chain).result()


class _Pass:
    def __init__(self, model: Model, chain: Chain) -> None:
        assert model.layout.row_offsets is None
        assert chain.n_edge_attributes == 0
        self.chain, self.n = chain, model.layout.n_labels
        self.weights = [Decimal(weight) for weight in model.weights.tolist()]
        self.n_state = model.layout.n_state
        self.edge = [_exp(weight) for weight in self.weights[self.n_state :]]
        self.starts = chain.starts.tolist()
        factors = chain.weights.tolist() if chain.weights.size else [1.0] * chain.positions
        self.factors = [Decimal(factor) for factor in factors]  # the weights of the positions' sequences
        self.active = self._attributes()
        self.potential = self._memoised(self._score)

    def _attributes(self) -> list[tuple[tuple[int, float], ...]]:
        chain = self.chain
        ids, offsets = chain.ids.tolist(), chain.offsets.tolist()
        values = chain.values.tolist() if chain.values.size else [1.0] * len(ids)
        return [tuple(zip(ids[low:high], values[low:high], strict=True)) for low, high in pairwise(offsets)]

    def _score(self, active: tuple[tuple[int, float], ...]) -> Row:
        n, w = self.n, self.weights
        terms = [[Decimal(x) * w[a * n + j] for a, x in active if x != 0.0] for j in range(n)]
        return [_exp(sum(own, _ZERO)) for own in terms]

    @staticmethod
    def _memoised(function: Callable[..., Row]) -> Callable[..., Row]:
        known: dict[tuple[tuple[int, float], ...], Row] = {}

        def look_up(key: tuple[tuple[int, float], ...]) -> Row:
            if key not in known:
                known[key] = function(key)
            return known[key]

        return look_up

    def result(self) -> Exact:
        n, edge = self.n, self.edge
        alpha: list[Row] = []
        predicted: list[Row] = []
        log_z, last = _ZERO, len(self.active) - 1
        for t, active in enumerate(self.active):
            if self.starts[t]:
                ahead = [_ONE] * n
            else:
                ahead = [sum((alpha[-1][i] * edge[i * n + j] for i in range(n)), _ZERO) for j in range(n)]
            predicted.append(ahead)
            alpha.append([p * b for p, b in zip(ahead, self.potential(active), strict=True)])
            if t == last or self.starts[t + 1]:
                log_z += self.factors[t] * sum(alpha[-1], _ZERO).ln()
        expected, magnitude = self._back(alpha, predicted)
        likelihood = gradient = None
        if self.chain.labelled:
            observed = self._observed()
            gradient = [o - e for o, e in zip(observed, expected, strict=True)]
            likelihood = self._likelihood(observed, log_z)
        return Exact(log_z, likelihood, expected, gradient, magnitude)

    def _back(self, alpha: list[Row], predicted: list[Row]) -> tuple[Row, Row]:
        n = self.n
        expected, magnitude = [_ZERO] * len(self.weights), [_ZERO] * len(self.weights)
        gamma: Row = []
        for t in range(len(self.active) - 1, -1, -1):
            if t + 1 == len(self.active) or self.starts[t + 1]:
                total = sum(alpha[t], _ZERO)
                gamma = [self.factors[t] * a / total for a in alpha[t]]
            for a, x in self.active[t]:
                for j in range(n):
                    expected[a * n + j] += Decimal(x) * gamma[j]
                    magnitude[a * n + j] += abs(Decimal(x)) * gamma[j]
            if not self.starts[t]:
                gamma = self._step(alpha[t - 1], predicted[t], gamma, expected)
        magnitude[self.n_state :] = expected[self.n_state :]
        return expected, magnitude

    def _step(self, alpha: Row, predicted: Row, gamma: Row, counts: Row) -> Row:
        """γ one position before, the pairs on the way counted."""
        n, edge = self.n, self.edge
        v = [g / p if p else _ZERO for g, p in zip(gamma, predicted, strict=True)]
        before = [_ZERO] * n
        for i in range(n):
            for j in range(n):
                pair = alpha[i] * edge[i * n + j] * v[j]
                before[i] += pair
                counts[self.n_state + i * n + j] += pair
        return before

    def _observed(self) -> Row:
        n, labels = self.n, self.chain.labels.tolist()
        observed = [_ZERO] * len(self.weights)
        for t, active in enumerate(self.active):
            for a, x in active:
                observed[a * n + labels[t]] += self.factors[t] * Decimal(x)
            if not self.starts[t]:
                observed[self.n_state + labels[t - 1] * n + labels[t]] += self.factors[t]
        return observed

    def _likelihood(self, observed: Row, log_z: Decimal) -> Decimal | None:
        """None where the labels are impossible."""
        score = sum((o * w for o, w in zip(observed, self.weights, strict=True) if o), _ZERO)
        return score - log_z if score.is_finite() else None


def _exp(score: Decimal) -> Decimal:
    return _ZERO if score == Decimal("-Infinity") else score.exp()

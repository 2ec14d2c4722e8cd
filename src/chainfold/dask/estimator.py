"""`DaskCRF`: the estimator, fitted on a cluster."""

from __future__ import annotations

import copy
import inspect
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from chainfold.chain.any_chain import is_chain
from chainfold.chain.batches import StoredChain
from chainfold.chain.parts import ChainInParts
from chainfold.dask.connection import connected
from chainfold.dask.encoding import encode
from chainfold.dask.training import stored, train
from chainfold.errors import ChainfoldError
from chainfold.sklearn.crf_inputs import check_no_text, development
from chainfold.sklearn.estimator import CRF, in_memory
from chainfold.sklearn.log import TrainingLog, reporter
from chainfold.system.files import temporary_directory

if TYPE_CHECKING:
    from distributed import Client


class DaskCRF(CRF):
    """A CRF that is fitted on a Dask cluster; the model has the same bits as one that `CRF` fits on one machine.

    client      a client; None for the current one; a scheduler's address, or 'local:4' for processes of this machine
    folder      where encoded data is kept, which all workers can read and write; without it a temporary folder of this
                machine, for workers of this machine
    parameters  those of `CRF`; the algorithm is lbfgs

    Predictions are made on this machine; `to_local` returns a plain `CRF`.

    >>> DaskCRF("local:2", c1=0.5).to_local()
    CRF(c1=0.5)
    """

    def __init__(
        self, client: Client | str | None = None, *, folder: str | Path | None = None, **parameters: Any
    ) -> None:
        super().__init__(**parameters)
        self.client = client
        self.folder = folder

    def fit(  # type: ignore[override]
        self,
        X: Any,  # noqa: N803
        y: None = None,
        X_dev: Any = None,  # noqa: N803
        y_dev: Any = None,
    ) -> Self:
        """Train a model, and return the estimator.

        X is a stored chain; a `pathlib.Path` of one, or of files, or a list of such; a `dask.dataframe`; or a
        `dask.bag` of dicts with lists, such as `tokens` and `tags`. All contain their labels, so there is no y. X_dev
        and y_dev are as in `CRF.fit`, in the memory of this machine.

        Raises `ChainfoldError` as `CRF.fit` does, and where the cluster cannot be reached or does not finish.
        """
        if y is not None:
            raise ChainfoldError("`y` must be left out: a cluster reads X with its labels; name them by `encoding`.")
        if isinstance(X, str | list | tuple):
            check_no_text(X)
        training, log, options = self._training_at_once(), TrainingLog(), self._encoding()
        with connected(self.client) as client, self._stored(client, X, options) as chain:
            model = train(
                client,
                chain,
                training,
                memory=self.memory,
                dev=None if X_dev is None else development(X_dev, y_dev, chain, options),
                constraints=self._constraints(chain),
                report=reporter(bool(self.verbose), log),
            )
            self._keep(in_memory(model), log)
        log.featgen_num_features = model.layout.size
        self._write()
        return self

    def to_local(self) -> CRF:
        """A plain `CRF` with the same parameters and, once fitted, the same model."""
        own = {name: value for name, value in self.get_params().items() if name not in ("client", "folder")}
        local = CRF(**own)
        if self.__sklearn_is_fitted__():
            local._keep(self.model_, self.training_log_)
        return local

    def __sklearn_clone__(self) -> Self:
        """An estimator with the same parameters; a client is shared, not copied."""
        own = self.get_params(deep=False)
        client = own.pop("client")
        return type(self)(client, **copy.deepcopy(own))

    @contextmanager
    def _stored(self, client: Client, inputs: Any, options: dict[str, Any]) -> Iterator[StoredChain | ChainInParts]:
        """The chain that the inputs are, or the one that they are encoded into."""
        if isinstance(inputs, StoredChain | ChainInParts) or is_chain(inputs):
            yield stored(inputs[0] if isinstance(inputs, list) else inputs)
            return
        with _folder(self.folder) as folder:
            yield encode(client, _files(client, inputs, folder), folder / "chain", **options)


CRF_PARAMETERS = list(inspect.signature(CRF.__init__).parameters.values())[1:]
_own = [one for one in inspect.signature(DaskCRF.__init__).parameters.values() if one.kind is not one.VAR_KEYWORD]
_named = [*_own, *(one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in CRF_PARAMETERS)]
DaskCRF.__init__.__signature__ = inspect.Signature(_named)  # type: ignore[attr-defined]  # scikit-learn reads it


@contextmanager
def _folder(given: str | Path | None) -> Iterator[Path]:
    if given is None:
        with temporary_directory() as folder:
            yield folder
    else:
        Path(given).mkdir(parents=True, exist_ok=True)
        yield Path(given).absolute()


def _files(client: Client, inputs: Any, folder: Path) -> Any:
    """The files that the inputs are, or those that a collection is written to, a file for each partition."""
    from dask import is_dask_collection

    if not is_dask_collection(inputs):
        return inputs
    kind = "parquet" if hasattr(inputs, "to_parquet") else "jsonl"
    rows = folder / "rows"
    rows.mkdir(exist_ok=True)
    for path in rows.glob("rows-*"):
        path.unlink()
    if kind == "parquet":
        name = "rows-{:08}.parquet".format
        written = inputs.to_parquet(str(rows), write_index=False, name_function=name, compute=False)
        client.compute(written, sync=True)
    elif hasattr(inputs, "to_textfiles"):
        written = inputs.map(json.dumps).to_textfiles(
            str(rows / "rows-*.jsonl"), name_function="{:08}".format, compute=False
        )
        client.compute(written, sync=True)
    else:
        raise ChainfoldError("X is a collection of another kind; give a dask.dataframe, a dask.bag or files.")
    return sorted(rows.glob(f"rows-*.{kind}"))

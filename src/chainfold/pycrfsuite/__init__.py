"""The classes of python-crfsuite, on chainfold's models: `from chainfold import pycrfsuite`.

    trainer          BaseTrainer, Trainer: append sequences, set parameters, train a model into a file
    tagger           Tagger: open a model, label sequences, ask for probabilities
    item_sequence    ItemSequence: the attributes of a sequence's items
    model_dump       the weights of a model by name, and as the text that `Tagger.dump` writes
    instances        the sequences that a Trainer was given, as columns
    parameters       the parameters of each algorithm, under CRFsuite's names
    messages         the progress of training as CRFsuite's lines
    log_parser       TrainLogParser: what such lines say, as numbers

Models are stored in chainfold's own format. All errors for bad input are of the class `CRFSuiteError`. `trainer` and
`tagger` import the others. Begin reading with `trainer.Trainer`.
"""

from chainfold.errors import ChainfoldError as CRFSuiteError
from chainfold.pycrfsuite.item_sequence import ItemSequence
from chainfold.pycrfsuite.log_parser import LabelScore, TrainLogParser
from chainfold.pycrfsuite.model_dump import ParsedDump
from chainfold.pycrfsuite.tagger import Tagger
from chainfold.pycrfsuite.trainer import CRFSUITE_VERSION, BaseTrainer, Trainer

__all__ = [
    "CRFSUITE_VERSION",
    "BaseTrainer",
    "CRFSuiteError",
    "ItemSequence",
    "LabelScore",
    "ParsedDump",
    "Tagger",
    "TrainLogParser",
    "Trainer",
]

"""Settings that a verb refuses: one sentence, exit code 2, and nothing written; those of `train` are in its file."""

from __future__ import annotations

import pytest

from cli.trained import Trained
from verbs import failed

pytestmark = pytest.mark.quick


TAG, FOLLOW, WATCH, EVAL = "tag m test.txt", "tag m test.txt --follow", "watch m test.txt", "eval m test.txt"
LEARN, EXPLAIN, GRADIENT = "learn test.txt -o new", "explain m test.txt", "gradient --synthetic 10:2:2:1"
REFUSED = [
    *((f"{verb} --scheme XYZ", "scheme is 'XYZ'") for verb in (TAG, EVAL, WATCH)),
    *((f"{verb} --memory some", "cannot read 'some' as an amount of memory") for verb in (TAG, EVAL)),
    *((f"{verb} --columns a,b,c", "there is no") for verb in (TAG, EVAL, WATCH)),
    *((f"{verb} --forbid B-X>Q", "there is no label 'Q'") for verb in (TAG, EVAL)),
    *((f"{verb} --forbid ^>*", "no labelling of the chain is possible") for verb in (TAG, EVAL)),
    *((f"{verb} --memory 0", "memory is 0") for verb in (TAG, EVAL)),
    *((f"{verb} --format word", "format is 'word'") for verb in (TAG, EVAL)),
    *((f"{verb} --group z", "there is no group column 'z'") for verb in (TAG, EVAL)),
    *((f"{verb} --encoding klingon", "klingon") for verb in (TAG, EVAL)),
    *((f"{TAG} --{option} -1", f"{option} is -1") for option in ("seed", "samples", "nbest")),
    (f"{TAG} --max-lag 3", "--max-lag requires --follow"),
    (f"{TAG} --on-error skip", "--on-error requires --follow"),
    (f"{TAG} --lags", "--lags requires --follow"),
    (f"{FOLLOW} --on-error ignore", "one of stop, skip, unknown"),
    (f"{FOLLOW} --max-lag -1", "at least 0"),
    (f"{FOLLOW} --nbest 2", "--follow does not support --nbest"),
    (f"{FOLLOW} -", "one input, and there are 2"),
    (f"{WATCH} --alarm Q>1", "there is no 'Q' to raise the alarm 'Q>1'; choose surprise, entropy"),
    (f"{WATCH} --alarm O", "cannot read 'O' as an alarm"),
    (f"{WATCH} --window 0", "window is 0"),
    (f"{WATCH} --max-lag -1", "--max-lag is -1"),
    (f"{LEARN} --rate 0", "--rate is 0.0, but must be a finite number above zero."),
    (f"{LEARN} --hash-bits 99", "--hash-bits is 99, but must be a whole number from 1 to 24."),
    (f"{LEARN} --save-every 0", "--save-every is 0, but must be a whole number, at least 1."),
    (f"{LEARN} --resume --fresh", "give --resume or --fresh, not both."),
    (f"{EXPLAIN} --position 9999", "--position is 9999, but must be a row of the input, from 1 to "),
    (f"{EXPLAIN} --position 0", "--position is 0"),
    (f"{EXPLAIN} --top -1", "--top is -1"),
    ("explain m missing", "no such file"),
    ("inspect m --label X", "there is no label 'X' in the model; its labels are "),
    ("inspect m --top -1", "top is -1"),
    ("inspect m --html new --json", "give --html or --json"),
    ("gradient", "give either a stored chain or --synthetic"),
    ("gradient missing.arrow", "missing.arrow: there is no such file."),
    ("gradient missing.arrow --synthetic 10:2:2:1", "give either a stored chain or --synthetic"),
    ("gradient --synthetic 10:2:2", "cannot read '10:2:2' as a synthetic chain"),
    ("gradient --synthetic 10:two:2:1", "cannot read '10:two:2:1'"),
    ("gradient --synthetic 0:2:2:1", "positions is 0"),
    ("gradient --synthetic 10:2:2:3", "n_attributes is 2, but must be at least 3"),
    (f"{GRADIENT} --engine warp", "there is no engine 'warp'"),
    (f"{GRADIENT} --memory 1.2.3GB", "cannot read '1.2.3GB'"),
    (f"{GRADIENT} --threads 0", "threads is 0, but must be a whole number, at least 1"),
    (f"{GRADIENT} --seed -1", "seed is -1"),
    (f"{GRADIENT} --output missing/gradient.npy", "cannot be written"),
    ("gradient --synthetic 10000000000:300:3000:1 --engine fb-log", "not enough memory"),
    ("gradient --synthetic 100000:5:9:3 --engine fb --memory 1MB", "'fb' needs about 12.8 MB"),
    *(
        (
            f"{verb} m test.chain {option}",
            f"is an encoded chain, to which {option.split()[0]} does not apply; leave it ",
        )
        for verb in ("tag", "eval", "explain", "watch")
        for option in ("--group w", "--columns w,t", "--format csv", "--comments #", "--groups-return")
    ),
]


@pytest.mark.parametrize(("command", "sentence"), REFUSED, ids=[command for command, _ in REFUSED])
def test_a_setting_that_cannot_be_is_one_sentence(
    command: str, sentence: str, trained: Trained, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = trained.path.parent
    monkeypatch.chdir(folder)
    before = sorted(folder.iterdir())
    assert sentence in failed(*command.split())
    assert sorted(folder.iterdir()) == before

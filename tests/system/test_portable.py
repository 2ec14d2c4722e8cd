"""Without the modules and calls that only POSIX systems have, models are fitted, used, saved and loaded."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HIDE = """
import mmap, os, signal, subprocess, sys, tempfile  # which look for some of these names themselves, as do these:
import numba, numpy, pyarrow

for name in ("fcntl", "grp", "pwd", "resource", "termios"):
    sys.modules[name] = None
for owner, names in (
    (os, "pread preadv pwrite pwritev fchmod fork getuid geteuid mkfifo sched_getaffinity uname sysconf"),
    (os, "O_CLOEXEC O_DIRECTORY O_NOFOLLOW O_NONBLOCK"),
    (mmap, "MADV_DONTNEED"),
    (signal, "SIGHUP pthread_kill"),
):
    for name in names.split():
        delattr(owner, name)
"""
USE = """
from pathlib import Path
import chainfold
from chainfold import CRF, encode, encode_in_parts, open_chain, open_model, open_any_model, tag
from chainfold.system import signals

signals.listen()
X, y = [[{"word": "a"}, {"word": "b"}], [{"word": "b"}]] * 3, [["A", "B"], ["B"]] * 3
crf = CRF(max_iterations=3).fit(X, y)
assert crf.predict([[{"word": "b"}]]).tolist() == [["B"]]
crf.save("crf.model")
assert CRF.load("crf.model").predict([[{"word": "b"}]]).tolist() == [["B"]]
Path("rows.txt").write_text("a A\\nb B\\n\\nb B\\n" * 5)
chain = encode("rows.txt", "rows.chain")
assert open_chain("rows.chain").block(0, 15).labels.tolist() == [0, 1, 1] * 5
assert encode_in_parts("rows.txt", "parts", part_size=8).positions == 15
model = chainfold.train(chain, chainfold.Training(options={"max_iterations": 2}))
chainfold.save_model("rows.model", model)
assert len(tag(open_model("rows.model"), open_chain("parts"))) == 15
"""
COMMANDS = """
import sys
from chainfold.__main__ import main
main()
"""


def done(script: str, folder: Path, *arguments: str) -> str:
    line = [sys.executable, "-c", HIDE + script, *arguments]
    ended = subprocess.run(line, cwd=folder, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def test_nothing_needs_what_only_posix_has(tmp_path: Path) -> None:
    done(USE, tmp_path)
    assert not [path for path in tmp_path.iterdir() if path.suffix in (".part", ".lock")]
    done(COMMANDS, tmp_path, "train", "rows.txt", "-o", "again.model", "--max-iterations", "2")
    assert "15" in done(COMMANDS, tmp_path, "eval", "again.model", "rows.txt")
    assert done(COMMANDS, tmp_path, "tag", "rows.model", "rows.txt") == "a A A\nb B B\n\nb B B\n" * 5

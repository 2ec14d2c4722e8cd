"""The `chainfold` command, and `python -m chainfold`."""

import _signal  # type: ignore[import-not-found]  # a part of Python that is in no file

if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
    _signal.signal(_signal.SIGINT, _signal.SIG_DFL)  # until `listen`, Ctrl-C ends the process without a traceback

from chainfold.system import signals


def main() -> None:
    """Run the command line; signals are handled while it is imported, too."""
    signals.listen()
    from chainfold.cli import main as run

    run()


if __name__ == "__main__":
    main()

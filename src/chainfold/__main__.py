"""The `chainfold` command, and `python -m chainfold`."""

from chainfold.system import signals


def main() -> None:
    """Run the command line; signals are handled while it is imported, too."""
    signals.listen()
    from chainfold.cli import main as run

    run()


if __name__ == "__main__":
    main()

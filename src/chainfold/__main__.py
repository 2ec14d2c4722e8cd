"""The `chainfold` command, and `python -m chainfold`."""

from chainfold.system import signals as stopping


def main() -> None:
    """Run the command line; Ctrl-C is heard while it is imported, too."""
    stopping.listen()
    from chainfold.cli import main as run

    run()


if __name__ == "__main__":
    main()

"""`python -m chainfold`."""

from chainfold.cli import main

main()

"""`python -m puffertoolkit`."""

import sys

from puffertoolkit.cli import main

if __name__ == "__main__":
    sys.exit(main())

"""python -m gpunn: the same as the gpunn command."""

import sys

from gpunn.cli import main

if __name__ == "__main__":
    sys.exit(main())

"""`python -m engine_builder`, where the console script is not installed."""

import sys

from engine_builder.command import main

sys.exit(main())

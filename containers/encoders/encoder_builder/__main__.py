"""`python -m encoder_builder`, as the plan's commands are written."""

import sys

from encoder_builder.command import main

sys.exit(main())

"""``python -m dflashctl``."""

import sys

from dflashctl.cli.main import main

sys.exit(main())

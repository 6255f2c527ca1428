"""dflashctl deploys, watches and stops training runs on your own GPU machines."""

__version__ = "0.1.0"

"""What runs on a target: stdlib and libtmux only, Python 3.10 or newer.

The control side imports only ``protocol`` and ``wire`` from here; everything else is
shipped and runs over there.
"""

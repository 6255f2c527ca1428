"""Bucket boundaries and the batches that training uses: numpy only, Python 3.10 or newer.

It imports nothing else of dflashctl, so that a copy on a training box works alone.
"""

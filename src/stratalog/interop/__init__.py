"""Transcripts of other programs in, sessions of entries out, and entries out again as files.

`detect.py` is the door to the importers, one file a format; `export.py` has the exporters. Nothing here
writes: what is read is returned, with a report of what became of every record.
"""

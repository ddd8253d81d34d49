"""The command line: what a person asks of the engine, and how the answer looks. It decides nothing else.

`app.py` is the door. `state.py` has what all commands share, `failures.py` the exit codes, `output.py` and
`plain.py` the two streams and what may go to them, `keys.py` how a session is named. The commands are in
`importing.py`, `listing.py`, `searching.py`, `reading.py`, `changing.py`, `upkeep.py` and `demo.py`.
"""

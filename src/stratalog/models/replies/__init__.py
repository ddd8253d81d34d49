"""A provider's stream put together again, one file a shape, without its SDK and without I/O.

Each takes the stream's JSON, one event at a time, as it came; gives the deltas; and at the end makes
`Completed`, or raises `Faulted` when the reply was cut, is empty, or carries an error. What a provider adds
that is not known here is kept in the message where it can be.
"""

"""Lets Schemathesis end a stream of events at its first message: Docket's has an id and no data, and the next may be long in coming.

The name that is replaced is Schemathesis' own; requirements.txt pins the version that has it.
"""

import schemathesis.core.transport as transport

assert transport._carries_data(b"data: {}"), "another version of Schemathesis than requirements.txt names"
transport._carries_data = lambda _block: True

"""What Schemathesis has to know of Docket beyond its document.

The name that is replaced below is Schemathesis' own; requirements.txt pins the version that has it.
"""

import schemathesis
import schemathesis.core.transport as transport
from schemathesis.core.parameters import ParameterLocation

# A stream of events ends at its first message: that has an id and no data, and the next may be long in coming.
assert transport._carries_data(b"data: {}"), "another version of Schemathesis than requirements.txt names"
transport._carries_data = lambda _block: True

BATCHES = {"submit", "heartbeat", "complete", "fail", "release"}


@schemathesis.check
def a_wrong_entry_is_refused(_ctx, response, case):
    """A batch is answered with 200 and a result for each entry: where the request is wrong, at least one is a refusal."""
    operation_id = case.operation.definition.raw.get("operationId")
    wrong = case.meta is not None and case.meta.is_negative_at(ParameterLocation.BODY)
    if operation_id in BATCHES and wrong and response.status_code == 200:
        results = response.json()["results"]
        assert any(not result["ok"] for result in results), "wrong by the schema, and every entry was taken"

"""What Schemathesis has to know of Docket beyond its document.

The name that is replaced below is Schemathesis' own; requirements.txt pins the version that has it.
"""

import schemathesis
import schemathesis.core.transport as transport
from schemathesis.core.parameters import ParameterLocation

# A stream of events ends at its first message: that has an id and no data, and the next may be long in coming.
assert transport._carries_data(b"data: {}"), "another version of Schemathesis than requirements.txt names"
transport._carries_data = lambda _block: True

WAITING = {"claim", "review_pop", "review_pop_for"}


@schemathesis.hook
def before_call(_ctx, case, _kwargs):
    """A claim or a pop may wait for a minute, and there is nothing to learn from that."""
    body = case.body if operation_id(case) in WAITING and isinstance(case.body, dict) else {}
    wait = body.get("waitSeconds")
    if isinstance(wait, (int, float)) and 0.2 < wait <= 60:
        body["waitSeconds"] = 0.2


def operation_id(case):
    return case.operation.definition.raw.get("operationId")


BATCHES = {"submit", "heartbeat", "complete", "fail", "release", "review_commit", "review_commit_for", "review_entries"}


@schemathesis.check
def a_wrong_entry_is_refused(_ctx, response, case):
    """A batch is answered with 200 and a result for each entry: where the request is wrong, at least one is a refusal."""
    wrong = case.meta is not None and case.meta.is_negative_at(ParameterLocation.BODY)
    if operation_id(case) in BATCHES and wrong and response.status_code == 200:
        results = response.json()["results"]
        assert any(not result["ok"] for result in results), "wrong by the schema, and every entry was taken"

"""Verifies webhooks with the published library: {"secret", "headers", "body"} for each line, "valid" or "invalid" for an answer."""

import json
import sys

from standardwebhooks.webhooks import Webhook, WebhookVerificationError

for line in sys.stdin:
    case = json.loads(line)
    try:
        Webhook(case["secret"]).verify(case["body"], case["headers"])
        print("valid")
    except WebhookVerificationError:
        print("invalid")

"""Reads a mail with Python's own parser and says as JSON what a reader of it sees."""

import email
import email.policy
import json
import sys

mail = email.message_from_bytes(sys.stdin.buffer.read(), policy=email.policy.default)
sender = mail["from"].addresses[0]
json.dump(
    {
        "defects": [str(defect) for part in mail.walk() for defect in part.defects],
        "headers": sorted(name.lower() for name in mail.keys()),
        "subject": mail["subject"],
        "from": {"name": sender.display_name, "address": sender.addr_spec},
        "to": [address.addr_spec for address in mail["to"].addresses],
        "date": mail["date"].datetime.isoformat(),
        "messageId": mail["message-id"],
        "autoSubmitted": mail["auto-submitted"],
        "type": mail.get_content_type(),
        "text": mail.get_body(("plain",)).get_content(),
        "html": mail.get_body(("html",)).get_content(),
    },
    sys.stdout,
)

// Verifies webhooks with the published library: {"secret", "headers", "body"} for each line, "valid" or "invalid" for an answer.
// The first argument is the folder that npm has installed it into.

import { createRequire } from "node:module";
import { readFileSync } from "node:fs";

const { Webhook, WebhookVerificationError } = createRequire(`${process.argv[2]}/`)("standardwebhooks");

for (const line of readFileSync(0, "utf8").trim().split("\n")) {
  const { secret, headers, body } = JSON.parse(line);
  try {
    new Webhook(secret).verify(body, headers);
    console.log("valid");
  } catch (error) {
    if (!(error instanceof WebhookVerificationError)) throw error;
    console.log("invalid");
  }
}

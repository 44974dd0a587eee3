// Says of each delivery on standard input whether the `standardwebhooks` library takes it.
const { readFileSync } = require("node:fs");
const { Webhook, WebhookVerificationError } = require("standardwebhooks");

function takes({ secret, headers, body }) {
  try {
    new Webhook(secret).verify(Buffer.from(body, "base64"), headers);
    return true;
  } catch (error) {
    if (error instanceof WebhookVerificationError) return false;
    throw error;
  }
}

const deliveries = JSON.parse(readFileSync(0, "utf8"));
process.stdout.write(JSON.stringify(deliveries.map(takes)));

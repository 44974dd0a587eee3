# Says of each delivery on standard input whether the `standardwebhooks` library takes it.
import base64
import json
import sys

from standardwebhooks.webhooks import Webhook, WebhookVerificationError


def takes(delivery):
    try:
        body = base64.b64decode(delivery["body"])
        Webhook(delivery["secret"]).verify(body, delivery["headers"])
        return True
    except WebhookVerificationError:
        return False


json.dump([takes(delivery) for delivery in json.load(sys.stdin)], sys.stdout)

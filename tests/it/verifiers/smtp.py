"""A mail server on a free port of this machine.

It prints its port, then each mail that it takes as a line of JSON. Recipients say how it behaves:
`later@…` is not taken the first time, `never@…` is refused, and after taking a mail for `silent@…` it
hangs up without a word.
"""

import asyncio
import email
import email.policy
import json
import sys

from aiosmtpd.smtp import SMTP


class Handler:
    def __init__(self):
        self.put_off = set()

    async def handle_RCPT(self, server, session, envelope, address, options):
        if address.startswith("never@"):
            return "550 no such user"
        if address.startswith("later@") and address not in self.put_off:
            self.put_off.add(address)
            return "451 try again later"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server, session, envelope):
        mail = email.message_from_bytes(envelope.content, policy=email.policy.default)
        told = {
            "mail_from": envelope.mail_from,
            "rcpt_tos": envelope.rcpt_tos,
            "headers": {name.lower(): str(value) for name, value in mail.items()},
            "text": mail.get_content(),
        }
        print(json.dumps(told), flush=True)
        if envelope.rcpt_tos[0].startswith("silent@"):
            server.transport.abort()
        return "250 taken"


async def main():
    handler = Handler()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(
        lambda: SMTP(handler, enable_SMTPUTF8=True), "127.0.0.1", int(sys.argv[1])
    )
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


asyncio.run(main())

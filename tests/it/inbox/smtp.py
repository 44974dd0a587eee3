"""A mail server on a free port of this machine.

It prints its port, then each mail that it takes as a line of JSON. Recipients say how it behaves:
`later@…` is not taken the first time, `never@…` is refused, after taking a mail for `silent@…` it
hangs up without a word, and after one for `hanging@…` it says nothing.

After the port may come `starttls` or `tls`, and a file with a key and its certificate: then it is
encrypted so, and wants the login `acme` with the password `right`. Each try is a line of JSON too.
"""

import asyncio
import email
import email.policy
import json
import ssl
import sys

from aiosmtpd.smtp import SMTP, AuthResult, LoginPassword


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
            "starttls": session.ssl is not None,
        }
        print(json.dumps(told), flush=True)
        if envelope.rcpt_tos[0].startswith("silent@"):
            server.transport.abort()
        if envelope.rcpt_tos[0].startswith("hanging@"):
            await asyncio.sleep(3600)
        return "250 taken"


def authenticate(server, session, envelope, mechanism, given):
    right = LoginPassword(b"acme", b"right")
    print(json.dumps({"login": given == right}), flush=True)
    return AuthResult(success=given == right, handled=False)


async def main():
    handler = Handler()
    loop = asyncio.get_running_loop()
    port, (encryption, *pem) = int(sys.argv[1]), sys.argv[2:] or ["none"]
    options, at_once = {"enable_SMTPUTF8": True}, None
    if pem:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(pem[0])
        options |= {"authenticator": authenticate, "auth_required": True}
        if encryption == "starttls":
            options |= {"tls_context": context, "require_starttls": True}
        else:
            options |= {"auth_require_tls": False}
            at_once = context
    server = await loop.create_server(
        lambda: SMTP(handler, **options), "127.0.0.1", port, ssl=at_once
    )
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


asyncio.run(main())

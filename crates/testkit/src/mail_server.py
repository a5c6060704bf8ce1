"""A real SMTP server for the tests of the mail channel: aiosmtpd, which keeps every mail on disk.

    mail_server.py FOLDER [--starttls | --tls] [--certificate FOLDER] [--login USER:PASSWORD]

Its first line on standard output is its port. A mail is FOLDER/N.json: {"from", "to", "tls", "login", "data"}, on the disk before
the server says that it has it. Recipients choose how it answers: after-CODE@… refuses the data with that code, at-CODE@… the
recipient; silent@… gets no answer to its data.
"""

import argparse
import asyncio
import base64
import json
import os
import pathlib
import ssl

from aiosmtpd.smtp import SMTP, AuthResult


class Keeper:
    def __init__(self, folder):
        self.folder = folder
        self.count = 0

    async def handle_RCPT(self, server, session, envelope, address, options):
        if address.startswith("at-"):
            return f"{address[3:6]} not this one"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server, session, envelope):
        to = envelope.rcpt_tos[0]
        if to.startswith("after-"):
            return f"{to[6:9]} not like this"
        if to.startswith("silent@"):
            await asyncio.sleep(3600)
        self.count += 1
        mail = {
            "from": envelope.mail_from,
            "to": envelope.rcpt_tos,
            "tls": session.ssl is not None or server.transport.get_extra_info("ssl_object") is not None,
            "login": bool(session.authenticated),
            "data": base64.b64encode(envelope.original_content).decode(),
        }
        unfinished = self.folder / "unfinished"
        with unfinished.open("w") as file:
            json.dump(mail, file)
            file.flush()
            os.fsync(file.fileno())
        unfinished.rename(self.folder / f"{self.count}.json")
        return f"250 OK queued as {self.count}"


def tls_context(folder):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.pem", folder / "server.key")
    return context


async def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--starttls", action="store_true")
    parser.add_argument("--tls", action="store_true")
    parser.add_argument("--certificate", type=pathlib.Path)
    parser.add_argument("--login")
    arguments = parser.parse_args()
    arguments.folder.mkdir(exist_ok=True)
    context = tls_context(arguments.certificate) if arguments.certificate else None

    def authenticate(server, session, envelope, mechanism, data):
        given = f"{data.login.decode()}:{data.password.decode()}"
        return AuthResult(success=given == arguments.login, handled=False)

    options = {
        "hostname": "mail.test",
        "tls_context": context if arguments.starttls else None,
        "require_starttls": arguments.starttls,
        "authenticator": authenticate if arguments.login else None,
        "auth_required": bool(arguments.login),
        # With implicit TLS the library does not see that the connection is encrypted.
        "auth_require_tls": arguments.starttls,
    }
    keeper = Keeper(arguments.folder)
    server = await asyncio.get_running_loop().create_server(
        lambda: SMTP(keeper, **options), "127.0.0.1", 0, ssl=context if arguments.tls else None
    )
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


asyncio.run(main())

"""What one would write instead: codes by FastAPI over Redis, one script for each send.

    REDIS_URL=… API_KEY=… uvicorn fastapi_send:app --workers 2

It does what rivals/src/bin/send.rs does.
"""

import asyncio
import hashlib
import os
import secrets
from contextlib import asynccontextmanager
from pathlib import Path

import redis.asyncio
from fastapi import FastAPI, Header, HTTPException
from pydantic import BaseModel

TTL_SECONDS = 300
AUTHORIZATION = f"Bearer {os.environ['API_KEY']}"
store = redis.asyncio.Redis.from_url(os.environ["REDIS_URL"], decode_responses=True)
script = store.register_script((Path(__file__).parent / "send.lua").read_text())


class Send(BaseModel):
    phone: str


async def deliver() -> None:
    """Delivers to nowhere, a hundred at a time."""
    while True:
        if not await store.lpop("messages", 100):
            await asyncio.sleep(0.001)


@asynccontextmanager
async def lifespan(_: FastAPI):
    task = asyncio.create_task(deliver())
    yield
    task.cancel()


app = FastAPI(lifespan=lifespan)


@app.post("/v1/otp/send")
async def send(body: Send, authorization: str = Header()) -> dict:
    if not secrets.compare_digest(authorization, AUTHORIZATION):
        raise HTTPException(401)
    if not body.phone.startswith("+") or len(body.phone) > 16:
        raise HTTPException(400)
    request_id = f"otp_{secrets.token_hex(16)}"
    code = f"{secrets.randbelow(1_000_000):06}"
    hashed = hashlib.sha256(f"{request_id}:{code}".encode()).hexdigest()
    message = f'{{"to": "{body.phone}", "text": "{code} is your verification code."}}'
    sent = await script(keys=[f"limit:{body.phone}", f"code:{request_id}", "messages"],
                        args=[TTL_SECONDS, hashed, message])
    if not sent:
        raise HTTPException(429)
    return {"request_id": request_id, "expires_in": TTL_SECONDS}

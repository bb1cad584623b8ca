"""Push worker for the LightJQ dialect.

windlass serve                                  # the master, in one terminal
uvicorn push_app:worker --port 9000             # this worker, in another
"""

import os

from windlass.sdk.push import PushWorker

master = os.environ.get("MASTER", "http://127.0.0.1:8080/lightjq")
worker = PushWorker(master, url=os.environ.get("ME", "http://127.0.0.1:9000"), name="mailer", max_jobs=4)


@worker.job("greet")
async def greet(argument: dict[str, str]) -> str:
    return f"Hello, {argument['name']}!"


@worker.job("shout")
def shout(argument: dict[str, str]) -> str:  # a plain function runs in a thread
    return argument["text"].upper()

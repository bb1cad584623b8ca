"""taskiq with its broker of streams: a job is acknowledged when it has run, another's is claimed after 10 minutes. Its
stream is never trimmed unless a length is given, so what has run stays in the engine."""

from speaking import ROOMY_URL, main
from tasking import Taskiq
from taskiq_redis import RedisStreamBroker

if __name__ == "__main__":
    # From its beginning: by default a group that comes later reads none of what is queued.
    main(Taskiq(RedisStreamBroker(ROOMY_URL, consumer_id="0")))

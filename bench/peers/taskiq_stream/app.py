"""taskiq with its stream broker: a job is acknowledged when it has run, and jobs of other workers are claimed after 10
minutes. The stream is never trimmed unless a length is given, so jobs that have run stay in the engine."""

from speaking import ROOMY_URL, main
from tasking import Taskiq
from taskiq_redis import RedisStreamBroker

if __name__ == "__main__":
    # From the start of the stream: by default a group that is created later reads none of the queued jobs.
    main(Taskiq(RedisStreamBroker(ROOMY_URL, consumer_id="0")))

"""taskiq with its list broker: BRPOP removes a job from the engine, so a worker that dies loses the job."""

from speaking import ROOMY_URL, main
from tasking import Taskiq
from taskiq_redis import ListQueueBroker

if __name__ == "__main__":
    main(Taskiq(ListQueueBroker(ROOMY_URL)))

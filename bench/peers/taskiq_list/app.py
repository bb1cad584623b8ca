"""taskiq with its broker of lists: BRPOP takes a job off the engine, so who dies with it has lost it."""

from speaking import ROOMY_URL, main
from tasking import Taskiq
from taskiq_redis import ListQueueBroker

if __name__ == "__main__":
    main(Taskiq(ListQueueBroker(ROOMY_URL)))

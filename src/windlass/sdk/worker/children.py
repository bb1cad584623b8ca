class ChildDied(Exception):
    reason = "crashed"


class ChildRun: ...


class Children:
    def __init__(self, target, most): ...
    async def close(self): ...

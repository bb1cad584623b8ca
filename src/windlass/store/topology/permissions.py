"""Permissions that Windlass needs for its engine user: their purposes, the check for them, and readable refusals."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, NoReturn

from windlass.core.errors import EngineNotPermitted, WindlassError
from windlass.store import keys
from windlass.store.connection.connection import CommandArgs, EngineReplyError
from windlass.store.scripts import library

PREPARE = "windlass engine prepare"
CallsBy = Literal["functions", "scripts"]  # of the ways to call operations


class Permission(NamedTuple):
    """Permission of the engine's user to call a command."""

    name: str  # as in ACL rules, e.g. function|load
    example: str  # a call of it; @ stands for a key
    purpose: str
    is_required: bool = True  # else Windlass works without it, and reports the loss

    @property
    def display_name(self) -> str:
        return self.name.replace("|", " ").upper()


_CONFIRM = "to confirm that a write is safe"

# Commands that Windlass sends itself.
SENT = (
    Permission("info", "INFO server", "to check that the engine keeps jobs, and to notice its restarts"),
    Permission("eval", "EVAL x 1 @", "to keep lease tokens growing after a restart"),
    Permission("fcall", "FCALL x 1 @", "to call the functions of Windlass", is_required=False),
    Permission("evalsha", "EVALSHA x 1 @", "to call scripts where functions cannot be used", is_required=False),
    Permission("time", "TIME", "to read the engine's clock"),
    Permission("hget", "HGET @ x", "to recognise the namespace"),
    Permission("hmget", "HMGET @ x", "to recognise the namespace"),
    Permission("hsetnx", "HSETNX @ x x", "to mark the namespace"),
    Permission("blpop", "BLPOP @ 0", "to wait for jobs without polling"),
    Permission("xread", "XREAD STREAMS @ 0", "to follow events"),
    Permission("function|load", "FUNCTION LOAD x", "to load the functions of Windlass", is_required=False),
    Permission("function|list", "FUNCTION LIST", "to report functions of other versions", is_required=False),
    Permission("config|get", "CONFIG GET x", "to read how often the engine writes to disk", is_required=False),
    Permission("wait", "WAIT 1 0", f"{_CONFIRM} (durability replica)", is_required=False),
    Permission("waitaof", "WAITAOF 1 0 0", f"{_CONFIRM} (durability fsync)", is_required=False),
)
# Commands that Windlass sends to nodes of a cluster only.
SENT_TO_CLUSTER = (
    Permission("cluster|slots", "CLUSTER SLOTS", "to find the primary of each partition"),
    Permission("cluster|nodes", "CLUSTER NODES", "to notice slots that are being moved"),
    Permission("asking", "ASKING", "to go on while a slot is being moved"),
)
# Commands that Windlass sends while it connects. A refusal appears there, before the permissions can be checked.
SENT_FIRST = (
    Permission("select", "SELECT 0", "to select the database of the URL"),
    Permission("client|setname", "CLIENT SETNAME x", "to name connections", is_required=False),
    Permission("role", "ROLE", "to check that the node is the primary (Sentinel)"),
    Permission("sentinel|get-master-addr-by-name", "", "to ask the sentinels for the primary"),
    Permission("subscribe", "", "to learn from the sentinels of a new primary", is_required=False),
)
# Other commands that the functions call. The engine checks the user's permission for each of them: a missing permission
# ends a function half way, after its first writes. So all of them are checked before the first write.
_CALLS_INSIDE = """
DEL @; EXISTS @; EXPIRE @ 1; GET @; GETRANGE @ 0 0; HDEL @ x; HEXISTS @ x; HGETALL @; HINCRBY @ x 1; HLEN @;
HSCAN @ 0; HSET @ x x; INCR @; INCRBY @ 1; LINDEX @ 0; LPOP @; LPUSH @ x; LRANGE @ 0 0;
LTRIM @ 0 0; MGET @; MSET @ x; MSETNX @ x; OBJECT ENCODING @; PERSIST @; PEXPIRE @ 1; PTTL @; RPUSH @ x; SADD @ x;
SET @ x; SETRANGE @ 0 x; SISMEMBER @ x; SMEMBERS @; SMISMEMBER @ x; SREM @ x; SSCAN @ 0; STRLEN @; TYPE @; UNLINK @;
XADD @ * x x; XRANGE @ - +; XREVRANGE @ + -; ZADD @ 0 x; ZCARD @; ZCOUNT @ 0 0; ZMSCORE @ x; ZRANDMEMBER @;
ZRANGE @ 0 0; ZRANGEBYLEX @ - +; ZRANGEBYSCORE @ 0 0; ZRANK @ x; ZREM @ x; ZREMRANGEBYRANK @ 0 0;
ZREMRANGEBYSCORE @ 0 0; ZREVRANGE @ 0 0; ZSCAN @ 0; ZSCORE @ x; SCAN 0"""


def _inside(example: str) -> Permission:
    words = [word for word in example.split() if word.isalpha() and word.isupper()]
    return Permission("|".join(words).lower(), example, "inside the functions of Windlass")


INSIDE = tuple(_inside(example.strip()) for example in _CALLS_INSIDE.split(";"))
ALL = (*SENT, *SENT_TO_CLUSTER, *SENT_FIRST, *INSIDE)
_BY_NAME = {permission.name: permission for permission in reversed(ALL)}  # the first purpose of a command counts

# Only the engine knows what its user may do, and ACL GETUSER needs an admin. A command that the engine does not offer
# makes the check raise: no permission is missing then. The checked calls are complete: a check of EVAL or FCALL
# without arguments reads past their end and crashes the engine (seen with Redis 7.0 and Valkey 9.1).
_QUESTION = """local denied, unknown = {}, {}
for i = 2, #ARGV do
  local words = {}
  for word in string.gmatch(ARGV[i], '%S+') do words[#words + 1] = word == '@' and ARGV[1] or word end
  local is_known, may = pcall(redis.acl_check_cmd, unpack(words))
  if is_known and not may then denied[#denied + 1] = i - 2 end
  if redis.acl_check_cmd and not is_known then unknown[#unknown + 1] = i - 2 end
end
return {denied, unknown}"""

_USER = re.compile(r"\bUser (\S+) has no permissions")
_COMMAND = re.compile(r"run the '([^']+)' command")
_IN_SCRIPT = ("ACL failure in script", "The user executing the script can't")


def required_permissions(is_cluster: bool) -> tuple[Permission, ...]:
    return (*SENT, *(SENT_TO_CLUSTER if is_cluster else ()), *INSIDE)


def purpose_of(name: str) -> str:
    return _BY_NAME[name].purpose


def check_command(key: str, permissions: Sequence[Permission]) -> CommandArgs:
    """Return the command that checks which permissions the user lacks. It names no key, which could be refused."""
    return ("EVAL", _QUESTION, 0, key, *(permission.example for permission in permissions))


class Restrictions(NamedTuple):
    """Commands that a user may not call, and commands that the engine does not offer."""

    denied: tuple[Permission, ...] = ()
    unknown: tuple[Permission, ...] = ()

    def refusal_of(self, name: str) -> str:
        """Return why a command cannot be called, or an empty text."""
        if any(permission.name == name for permission in self.unknown):
            return f"the engine has no {_BY_NAME[name].display_name}"
        is_denied = any(permission.name == name for permission in self.denied)
        return f"the engine's user may not call {_BY_NAME[name].display_name}" if is_denied else ""


def read_restrictions(reply: Any, permissions: Sequence[Permission]) -> Restrictions:
    denied, unknown = (tuple(permissions[int(index)] for index in indexes) for indexes in reply)
    return Restrictions(denied, unknown)


def check(user: str, key: str, lacking: Sequence[Permission]) -> None:
    """Raise EngineNotPermitted if a required permission is missing."""
    names = {permission.name for permission in lacking}
    is_without_code = {"fcall", "evalsha"} <= names
    required = [
        permission
        for permission in lacking
        if permission.is_required or (permission.name == "fcall" and is_without_code)
    ]
    if any(permission.name == "eval" for permission in lacking):
        # The check itself is an EVAL, so that permission exists: the key is refused, and with it every command.
        pattern = f"~{key.partition(':{')[0]}:*"
        raise EngineNotPermitted(
            f"{_subject(user)} may not use keys such as {key!r}, where Windlass keeps its jobs. "
            f"{_grant(user, [pattern])}"
        )
    if required:
        raise missing_error(user, required)


def missing_error(user: str, lacking: Sequence[Permission]) -> EngineNotPermitted:
    """Return the error for missing permissions, with their purposes and a remedy."""
    by_purpose: dict[str, list[str]] = {}
    for permission in dict.fromkeys(lacking):
        by_purpose.setdefault(permission.purpose, []).append(permission.display_name)
    listed = "; ".join(f"{', '.join(names)} (needed {purpose})" for purpose, names in by_purpose.items())
    rules = [f"+{permission.name}" for permission in dict.fromkeys(lacking)]
    return EngineNotPermitted(f"{_subject(user)} may not call {listed}. {_grant(user, rules)}")


def functions_missing_error(user: str) -> EngineNotPermitted:
    """Return the error for an engine without our functions whose user may not load them."""
    return EngineNotPermitted(
        f"The engine does not have the functions of this version of Windlass (library {library().name}), and "
        f"{_subject(user, is_first=False)} may not call FUNCTION LOAD to load them. Let an admin run "
        f"`{PREPARE} --url URL` with the admin's URL, or grant +evalsha; running processes then continue by themselves "
        "(docs/engines.md)."
    )


def _subject(user: str, *, is_first: bool = True) -> str:
    return f"{'The' if is_first else 'the'} engine's user{f' {user!r}' if user else ''}"


def _grant(user: str, rules: Sequence[str]) -> str:
    return f"Let an admin run `ACL SETUSER {user or 'USER'} {' '.join(rules)}`; docs/engines.md lists all rules."


def explain_refusal(problem: WindlassError, user: str = "") -> WindlassError:
    """Return the problem, or a readable error if the engine refused a permission. Newer engines name the user."""
    if not isinstance(problem, EngineReplyError):
        return problem
    text = str(problem)
    if problem.kind != "NOPERM" and not any(words in text for words in _IN_SCRIPT):
        return problem
    user = found[1] if (found := _USER.search(text)) else user
    if command := _COMMAND.search(text):
        permission = _BY_NAME.get(command[1], Permission(command[1], "", "by this version of Windlass"))
        return (
            functions_missing_error(user) if permission.name == "function|load" else missing_error(user, [permission])
        )
    if "key" in text:
        rule = "~NAMESPACE:*"
        return EngineNotPermitted(
            f"{_subject(user)} may not use a key of Windlass' namespace. {_grant(user, [rule])} ({text})"
        )
    return EngineNotPermitted(
        f"{_subject(user)} lacks a permission that Windlass needs. "
        f"Let an admin compare its ACL rules with those in docs/engines.md. ({text})"
    )


def raise_explained(problem: WindlassError, user: str = "") -> NoReturn:
    found = explain_refusal(problem, user)
    if found is problem:
        raise problem
    raise found from problem


def acl_rules(
    namespace: str, *, is_cluster: bool = False, is_sentinel: bool = False, calls_by: CallsBy = "functions"
) -> list[str]:
    """Return the rules of `ACL SETUSER` for a user that may run Windlass: on an engine that an admin has prepared, or
    by scripts, which is the least that Windlass needs.

    Categories cover the data commands, so that a version of Windlass whose functions call other commands needs no other
    rules. BLPOP, XREAD and WAITAOF are in @blocking: older engines refuse a rule that names WAITAOF.
    """
    named = _CALL_RULES[calls_by]
    named += ("cluster|slots", "cluster|nodes", "asking", "ping") if is_cluster else ()
    named += ("role",) if is_sentinel else ()
    return [
        "resetkeys", f"~{keys.pattern(namespace)}", "resetchannels", "-@all", "+@read", "+@write", "+@blocking",
        "-@dangerous", "-@scripting",  # a part of @write: FLUSHALL, FUNCTION FLUSH
        *(f"+{name}" for name in named),
    ]  # fmt: skip


_CALL_RULES: dict[CallsBy, tuple[str, ...]] = {
    "functions": (
        "eval", "fcall", "info", "time", "wait", "config|get", "function|list", "select", "client|setname",
    ),
    "scripts": ("eval", "evalsha", "info", "time", "wait", "select", "client|setname"),
}  # fmt: skip

"""Signature of a task's function: encodes a call as a payload and decodes it again.

A call is checked before it is enqueued, and its arguments are typed when it is decoded. The payload is a map from
parameter to value, so every other dialect can read and write it. Defaults are not stored: a changed default also holds
for waiting jobs.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Optional, TypeAlias

import msgspec
from msgspec import UNSET

from windlass.core.errors import BadInput, WindlassError
from windlass.core.job import Blob, Codec

from .annotations import Untyped, resolve_annotation
from .codec import Decode, decoder, describe_error, new_decoder, pack
from .storable import is_structured, normalize_annotation, refuse_unstorable, simplify

META = "$windlass"  # key of the SDK's metadata within a payload; no parameter can have this name
Migrate: TypeAlias = Callable[[dict[str, Any], int], dict[str, Any]]

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_MAP_STARTS = frozenset((*range(0x80, 0x90), 0xDE, 0xDF))  # first bytes of a map in MessagePack
_MSGPACK = Codec.MSGPACK  # on the fast path, an attribute of an enum would cost as much as the rest
_JSON_OBJECT = re.compile(rb"[ \t\r\n]*\{")
_to_json = msgspec.json.Encoder(enc_hook=simplify).encode


class WrongCall(BadInput, TypeError):
    """The task's function does not accept this call. Nothing was enqueued."""


class BadArguments(WindlassError):
    """The payload is not a call of the task's function. A retry would not help."""

    code = "bad_arguments"


class DecodedCall(NamedTuple):
    """Arguments of a call without injected parameters, and the SDK's metadata."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    meta: dict[str, Any]


class Signature:
    """Signature of one function. `of` makes it once."""

    def __init__(
        self,
        name: str,
        parameters: list[inspect.Parameter],
        types: dict[str, Any],
        skip: frozenset[str],
        returns: Any,
    ) -> None:
        self.name = name
        self.returns = returns  # `Any` without annotation, `NoneType` for None; not checked for storability
        self._skip = skip
        stored = [parameter for parameter in parameters if parameter.name not in skip]
        self._python = inspect.Signature(stored)
        self._classify(parameters, stored)
        self._untyped = {name: found for name, found in types.items() if isinstance(found, Untyped)}
        self._types = {parameter.name: self._stored_type(parameter, types[parameter.name]) for parameter in stored}
        self._make_decoders()

    @property
    def leading(self) -> tuple[str, ...]:
        """Parameters that can receive results of previous steps, the first result in the first parameter."""
        return tuple(name for name in self._order if name != self._variadic)

    def may_store(self, name: str) -> bool:
        """Tell whether payloads may have an argument of this name."""
        return name in self._order or bool(self._extra)

    @property
    def injected(self) -> frozenset[str]:
        return self._skip

    @classmethod
    def of(
        cls,
        function: Callable[..., Any],
        skip: frozenset[str] = frozenset(),
        *,
        name: str = "",
        scope: Mapping[str, Any] | None = None,
    ) -> Signature:
        """Make the signature of a function.

        `skip` names parameters that are injected when the function runs and never part of a call. `scope` has further
        names for annotations, for functions declared inside functions.
        """
        python = inspect.signature(function)
        parameters = list(python.parameters.values())
        types = {
            parameter.name: resolve_annotation(function, parameter.annotation, scope or {})
            for parameter in parameters
            if parameter.name not in skip
        }
        returns = resolve_annotation(function, python.return_annotation, scope or {})
        name = name or getattr(function, "__name__", type(function).__name__)
        return cls(name, parameters, types, skip, Any if isinstance(returns, Untyped) else returns)

    def _classify(self, parameters: list[inspect.Parameter], stored: list[inspect.Parameter]) -> None:
        """Sort the parameters by kind, for the hot paths."""
        kinds = {kind: [p.name for p in stored if p.kind is kind] for kind in inspect._ParameterKind}
        self._variadic = next(iter(kinds[inspect.Parameter.VAR_POSITIONAL]), "")
        self._extra = next(iter(kinds[inspect.Parameter.VAR_KEYWORD]), "")
        self._is_variadic = bool(self._variadic or self._extra)
        self._order = tuple(p.name for p in stored if p.name != self._extra)
        self._positional = tuple(p.name for p in stored if p.kind in _POSITIONAL)
        self._by_keyword = frozenset(self._order) - {self._variadic, *kinds[inspect.Parameter.POSITIONAL_ONLY]}
        single = [p for p in stored if p.name not in (self._variadic, self._extra)]
        self._defaults = {p.name: p.default for p in single if p.default is not p.empty}
        self._required = frozenset(p.name for p in single) - self._defaults.keys()
        self._needs_keywords = not self._required.issubset(self._positional)
        candidates = [p.name for p in single if p.name in self._required] or [p.name for p in single]
        self._single = candidates[0] if len(candidates) == 1 else ""
        self._known = frozenset((*self._order, META))
        # To fill *args, all parameters before it must be passed by position, too.
        by_position = _POSITIONAL if self._variadic else _POSITIONAL[:1]
        placed = [p for p in parameters if p.kind in by_position]
        self._placed = tuple(p.name for p in placed if p.name not in self._skip)
        self._injected = tuple((i, p.name, p.default) for i, p in enumerate(placed) if p.name in self._skip)
        self._is_all_positional = parameters == stored and all(p.kind in _POSITIONAL for p in stored)

    def _stored_type(self, parameter: inspect.Parameter, annotation: Any) -> Any:
        if isinstance(annotation, Untyped):
            return Any
        try:
            annotation = normalize_annotation(annotation)
            refuse_unstorable(annotation)
        except BadInput as refusal:
            raise BadInput(f"{self.name}: parameter {parameter.name}: {refusal}; or annotate it as Any") from None
        if parameter.default is None:
            annotation = Optional[annotation]  # noqa: UP045 - `x: int = None` is written everywhere, and meant
        return list[annotation] if parameter.name == self._variadic else annotation

    def _make_decoders(self) -> None:
        """Make decoders that check and type a whole call as one struct with a field per parameter.

        The fields have generated names, because names of parameters need not be valid names of struct fields.
        """
        fields: list[tuple[str, Any] | tuple[str, Any, Any]] = []
        for index, name in enumerate(self._order):
            required = name in self._required
            fields.append((f"p{index}", self._types[name]) if required else (f"p{index}", self._types[name], UNSET))
        fields.append(("meta", dict[str, Any], UNSET))
        self._fields = (*self._order, META)
        rename = dict(zip((field[0] for field in fields), self._fields, strict=True))
        call = msgspec.defstruct(
            "Call", fields, rename=rename, kw_only=True, forbid_unknown_fields=not self._extra, gc=False
        )
        self._decoders: dict[Codec, Decode] = {codec: new_decoder(call, codec) for codec in (Codec.MSGPACK, Codec.JSON)}
        self._from_msgpack = self._decoders[Codec.MSGPACK]

    # From call to payload

    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Bind a call to parameters, in their order, without defaults. Raises WrongCall as Python raises TypeError."""
        names = self._positional
        if not self._is_variadic and len(args) <= len(names):
            # One name is bound in a tenth of the time, and naming `strict` would cost half as much again.
            bound = {names[0]: args[0]} if len(args) == 1 else dict(zip(names, args))  # noqa: B905
            if not kwargs:
                if (len(args) == len(names) and not self._needs_keywords) or bound.keys() >= self._required:
                    return bound
            elif self._by_keyword.issuperset(kwargs) and bound.keys().isdisjoint(kwargs):
                bound.update(kwargs)
                if bound.keys() >= self._required:
                    return {name: bound[name] for name in self._order if name in bound}
        return self._bind_as_python(args, kwargs)

    def _bind_as_python(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        try:
            bound = dict(self._python.bind(*args, **kwargs).arguments)
        except TypeError as error:
            raise WrongCall(f"{self.name}: {error}") from None
        if self._variadic in bound:
            bound[self._variadic] = list(bound[self._variadic])
        extra = bound.pop(self._extra, {})
        for name in extra.keys() & (self._known | self._skip):
            raise WrongCall(f"{self.name}: got an unexpected keyword argument {name!r}; this name is reserved")
        bound.update(sorted(extra.items()))
        return bound

    def encode(self, bound: dict[str, Any], meta: dict[str, Any] | None = None) -> Blob:
        """Encode a bound call as a payload and check it against the annotations."""
        if self._untyped:
            self._refuse_structures(bound)
        try:
            data = pack(bound if meta is None else {**bound, META: meta})
        except BadInput as refusal:
            raise self._blame_argument(bound, refusal) from refusal
        try:
            self._from_msgpack(data)
            if self._extra:
                self._read_extra(data, _MSGPACK)
        except Exception as error:  # a user's class can raise anything in its constructor
            raise WrongCall(f"{self.name}: {describe_error(error)}") from error
        return Blob(data, _MSGPACK)

    def _refuse_structures(self, bound: dict[str, Any]) -> None:
        for name, value in bound.items():
            untyped = self._untyped.get(name if name in self._known else self._extra)
            for part in value if untyped and name == self._variadic else (value,):
                if untyped and is_structured(type(part)):
                    kind = type(part).__name__
                    raise WrongCall(f"{self.name}: {name}: a {kind} would arrive as a dict, because {untyped.why}")

    def _blame_argument(self, bound: dict[str, Any], refusal: BadInput) -> WrongCall | BadInput:
        for name, value in bound.items():
            try:
                pack(value)
            except BadInput as reason:
                return WrongCall(f"{self.name}: {name}: {reason}")
        return refusal

    # From payload to call

    def decode(self, blob: Blob, migrate: Migrate | None = None) -> DecodedCall:
        """Decode a payload into a call.

        `migrate` gets the stored map and its version (1 if it has none) and returns the map of the current version. A
        payload that is not a map is the only argument and has no version.
        """
        try:
            if not _is_map(blob):
                return self._decode_single(blob)
            if migrate is not None:
                blob = self._migrate(blob, migrate)
            return self._call(self._read(blob.data, blob.codec))
        except BadArguments:
            raise
        except Exception as error:  # a user's class can raise anything in its constructor
            raise BadArguments(f"{self.name}: {self._explain(error, blob)}") from error

    def positional(self, blob: Blob) -> tuple[Any, ...] | None:
        """Decode all arguments by position: the fast path of most payloads.

        Returns None if `decode` must be used.
        """
        if (
            not self._is_all_positional
            or blob.codec is not _MSGPACK
            or not blob.data
            or blob.data[0] not in _MAP_STARTS
        ):
            return None
        try:
            values: tuple[Any, ...] = msgspec.structs.astuple(self._from_msgpack(blob.data))[:-1]  # without META
        except Exception as error:  # as in `decode`
            raise BadArguments(f"{self.name}: {self._explain(error, blob)}") from error
        if self._defaults:
            names = zip(self._order, values, strict=True)
            return tuple([self._defaults[name] if value is UNSET else value for name, value in names])
        return values

    def bind_injected(
        self, decoded: DecodedCall, injected: Mapping[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Combine the decoded arguments with the values of the parameters that `skip` named."""
        if not self._injected:
            return decoded.args, {**decoded.kwargs, **injected}
        args = list(decoded.args)
        for index, name, default in self._injected:
            args.insert(index, injected.get(name, default))
        by_position = {name for _, name, _ in self._injected}
        return tuple(args), decoded.kwargs | {name: v for name, v in injected.items() if name not in by_position}

    def _read(self, data: bytes, codec: Codec) -> dict[str, Any]:
        """Decode parameters to typed values, as far as given, and META."""
        call = self._decoders[codec](data)
        values = zip(self._fields, msgspec.structs.astuple(call), strict=True)
        read = {name: value for name, value in values if value is not UNSET}
        return {**self._read_extra(data, codec), **read} if self._extra else read

    def _read_extra(self, data: bytes, codec: Codec) -> dict[str, Any]:
        raw: dict[str, msgspec.Raw] = decoder(dict[str, msgspec.Raw], codec)(data)
        read = decoder(self._types[self._extra], codec)
        extra = {name: value for name, value in raw.items() if name not in self._known}
        for name in extra.keys() & self._skip:
            raise BadArguments(f"{self.name}: {name} must not be in the payload: the worker injects it")
        return {name: self._read_one(name, read, bytes(value)) for name, value in extra.items()}

    def _read_one(self, name: str, read: Decode, data: bytes) -> Any:
        try:
            return read(data)
        except Exception as error:  # as in `decode`
            raise ValueError(f"{name}: {describe_error(error)}") from error

    def _call(self, values: dict[str, Any]) -> DecodedCall:
        meta = values.pop(META, {})
        if not self._placed and not self._variadic:
            return DecodedCall((), values, meta)
        args = [values.pop(name) if name in values else self._defaults[name] for name in self._placed]
        return DecodedCall((*args, *values.pop(self._variadic, ())), values, meta)

    def _decode_single(self, blob: Blob) -> DecodedCall:
        if not self._required and _is_nothing(blob):
            return self._call({})
        if not self._single:
            raise BadArguments(
                f"{self.name}: the payload is not an object, so it must be the only argument; "
                f"{self._describe_parameters()}"
            )
        value = decoder(self._types[self._single], blob.codec)(blob.data)
        return self._call({self._single: value})

    def _migrate(self, blob: Blob, migrate: Migrate) -> Blob:
        raw: dict[str, Any] = decoder(dict[str, Any], blob.codec)(blob.data)
        meta = msgspec.convert(raw.pop(META, {}), dict[str, Any])
        version = msgspec.convert(meta.get("v", 1), int)
        try:
            current = {**migrate(raw, version), META: meta}
        except Exception as error:
            raise BadArguments(
                f"{self.name}: the payload of version {version} could not be migrated: {type(error).__name__}: {error}"
            ) from error
        return Blob(pack(current) if blob.codec is Codec.MSGPACK else _to_json(current), blob.codec)

    def _explain(self, error: Exception, blob: Blob) -> str:
        """Name all unknown or missing arguments, where the decoder names only the first."""
        try:
            given = decoder(dict[str, msgspec.Raw], blob.codec)(blob.data).keys()
        except Exception:
            return describe_error(error)
        unknown, missing = given - self._known, self._required - given
        if unknown and not self._extra:
            return f"unknown arguments: {_format_names(unknown)}; {self._describe_parameters()}"
        return (
            f"missing arguments: {_format_names(missing)}; {self._describe_parameters()}"
            if missing
            else describe_error(error)
        )

    def _describe_parameters(self) -> str:
        return f"it takes {', '.join(self._order) or 'no arguments'}"


def _format_names(names: set[str]) -> str:
    """List names from a foreign payload: at most five, each cut to 40 characters."""
    shown = ", ".join(repr(name[:40]) for name in sorted(names)[:5])
    return shown if len(names) <= 5 else f"{shown} and {len(names) - 5} more"


def _is_map(blob: Blob) -> bool:
    if blob.codec is Codec.MSGPACK:
        return blob.data[:1] != b"" and blob.data[0] in _MAP_STARTS
    return blob.codec is Codec.JSON and _JSON_OBJECT.match(blob.data) is not None


def _is_nothing(blob: Blob) -> bool:
    null = b"\xc0" if blob.codec is Codec.MSGPACK else b"null" if blob.codec is Codec.JSON else b""
    return blob.data.strip() in (b"", null)

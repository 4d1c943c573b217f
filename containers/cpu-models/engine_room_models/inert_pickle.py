"""Reads the pickle of a PyTorch state dict as data, without executing it.

A pickle is a program for a stack machine. Python's own machine calls whatever the program names, so a weight
file could run any code. The machine below knows only the instructions that a state dict needs; the three
functions that a state dict names are replaced by records of their arguments, and everything else is refused.
"""

from __future__ import annotations

import io
import pickletools
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

# A state dict of 7 billion parameters pickles to some hundred kilobytes; this bounds time and memory.
MAX_PICKLE_BYTES = 16 * 1024 * 1024


class UnsafePickleError(ValueError):
    """The pickle asks for something that a state dict has no need of."""


@dataclass(frozen=True)
class GlobalName:
    """A name that the pickle refers to; nothing is imported."""

    module: str
    name: str

    def __str__(self) -> str:
        return f"{self.module}.{self.name}"


@dataclass(frozen=True, eq=False)
class StorageReference:
    """A persistent id: `("storage", storage type, key, device, element count[, view])`."""

    fields: tuple[Any, ...]


@dataclass(frozen=True, eq=False)
class TensorRecord:
    """The arguments of `torch._utils._rebuild_tensor_v2`."""

    storage: StorageReference
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


class _Mark:
    """The position on the stack that MARK leaves."""


_ORDERED_DICT = GlobalName("collections", "OrderedDict")
_REBUILD_TENSOR = GlobalName("torch._utils", "_rebuild_tensor_v2")
_REBUILD_PARAMETER = GlobalName("torch._utils", "_rebuild_parameter")
_CALLABLE = {_ORDERED_DICT, _REBUILD_TENSOR, _REBUILD_PARAMETER}

_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_LITERALS = {
    *("BININT", "BININT1", "BININT2", "LONG1", "LONG4", "BINFLOAT"),
    *("BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"),
}
_TUPLE_SIZES = {"EMPTY_TUPLE": 0, "TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}


def is_permitted_global(module: str, name: str) -> bool:
    """Whether a state dict may name `module.name`: the three functions, and torch's storage types."""
    if GlobalName(module, name) in _CALLABLE:
        return True
    return module == "torch" and name.endswith("Storage") and name.isidentifier()


def load_inert(data: bytes) -> tuple[Any, int]:
    """Reads the pickle at the start of `data`; returns its value and the number of bytes that it takes.

    Raises UnsafePickleError for any instruction, name or call that a state dict has no need of, and
    ValueError for a pickle that is malformed or longer than MAX_PICKLE_BYTES.
    """
    file = io.BytesIO(data[:MAX_PICKLE_BYTES])
    machine = _Machine()
    try:
        for opcode, argument, _ in pickletools.genops(file):
            if opcode.name == "STOP":
                break
            machine.step(opcode.name, argument)
        return machine.pop(), file.tell()
    except (IndexError, KeyError) as error:
        raise ValueError(f"the pickle is malformed: {error!r}") from error


class _Machine:
    """The stack and memo of one pickle."""

    def __init__(self) -> None:
        self._stack: list[Any] = []
        self._memo: dict[int, Any] = {}

    def pop(self) -> Any:
        value = self._stack.pop()
        if isinstance(value, _Mark):
            raise ValueError("the pickle is malformed: a mark where a value must be")
        return value

    def _pop_to_mark(self) -> list[Any]:
        items: list[Any] = []
        while not isinstance(self._stack[-1], _Mark):
            items.append(self._stack.pop())
        self._stack.pop()
        items.reverse()
        return items

    def step(self, name: str, argument: Any) -> None:
        stack = self._stack
        if name in _LITERALS:
            stack.append(argument)
        elif name in _CONSTANTS:
            stack.append(_CONSTANTS[name])
        elif name in _TUPLE_SIZES:
            items = [self.pop() for _ in range(_TUPLE_SIZES[name])]
            stack.append(tuple(reversed(items)))
        elif name == "TUPLE":
            stack.append(tuple(self._pop_to_mark()))
        elif name == "MARK":
            stack.append(_Mark())
        elif name == "EMPTY_DICT":
            stack.append({})
        elif name == "EMPTY_LIST":
            stack.append([])
        elif name in {"BINGET", "LONG_BINGET"}:
            stack.append(self._memo[argument])
        elif name in {"BINPUT", "LONG_BINPUT"}:
            self._memo[argument] = stack[-1]
        elif name == "MEMOIZE":
            self._memo[len(self._memo)] = stack[-1]
        elif name not in {"PROTO", "FRAME"}:
            self._compound(name, argument)

    def _compound(self, name: str, argument: Any) -> None:
        stack = self._stack
        if name == "GLOBAL":
            module, _, attribute = argument.partition(" ")
            stack.append(_permitted(module, attribute))
        elif name == "STACK_GLOBAL":
            attribute, module = self.pop(), self.pop()
            stack.append(_permitted(module, attribute))
        elif name == "BINPERSID":
            stack.append(_storage_reference(self.pop()))
        elif name == "REDUCE":
            arguments, function = self.pop(), self.pop()
            stack.append(_call(function, arguments))
        elif name in {"APPEND", "APPENDS"}:
            items = self._pop_to_mark() if name == "APPENDS" else [self.pop()]
            _expect(stack[-1], list, name).extend(items)
        elif name in {"SETITEM", "SETITEMS"}:
            items = self._pop_to_mark() if name == "SETITEMS" else [*reversed([self.pop(), self.pop()])]
            target = _expect(stack[-1], dict, name)
            for key, value in zip(items[::2], items[1::2], strict=True):
                target[_hashable(key)] = value
        elif name == "BUILD":
            # torch hangs `_metadata` on the OrderedDict as an attribute; the tensors do not need it.
            state = self.pop()
            if not isinstance(state, dict) or not isinstance(stack[-1], dict):
                raise UnsafePickleError("it sets attributes (BUILD) on something else than a dict")
        else:
            raise UnsafePickleError(f"it uses the instruction {name}")


def _permitted(module: object, name: object) -> GlobalName:
    if isinstance(module, str) and isinstance(name, str) and is_permitted_global(module, name):
        return GlobalName(module, name)
    raise UnsafePickleError(f"it names {module}.{name}")


def _expect(value: Any, kind: type, instruction: str) -> Any:
    if not isinstance(value, kind):
        raise UnsafePickleError(f"it applies {instruction} to {type(value).__name__}")
    return value


def _hashable(key: Any) -> Hashable:
    if isinstance(key, (str, int, float, type(None))):
        return key
    raise UnsafePickleError(f"it uses {type(key).__name__} as a key")


def _storage_reference(fields: Any) -> StorageReference:
    if not isinstance(fields, tuple) or len(fields) not in {5, 6} or fields[0] != "storage":
        raise UnsafePickleError("it has a persistent id that is no storage")
    return StorageReference(fields)


def _call(function: Any, arguments: Any) -> Any:
    if not isinstance(function, GlobalName) or function not in _CALLABLE or not isinstance(arguments, tuple):
        raise UnsafePickleError(f"it calls {function}")
    if function == _ORDERED_DICT:
        if arguments not in ((), ([],)):
            raise UnsafePickleError("it fills an OrderedDict by a call")
        return {}
    if function == _REBUILD_PARAMETER:
        if not arguments or not isinstance(arguments[0], TensorRecord):
            raise UnsafePickleError("it makes a parameter of something else than a tensor")
        return arguments[0]
    return _tensor_record(arguments)


def _tensor_record(arguments: tuple[Any, ...]) -> TensorRecord:
    if len(arguments) not in {6, 7}:
        raise UnsafePickleError(f"it makes a tensor of {len(arguments)} arguments")
    storage, offset, shape, strides = arguments[:4]
    if (
        not isinstance(storage, StorageReference)
        or not isinstance(shape, tuple)
        or not isinstance(strides, tuple)
    ):
        raise UnsafePickleError("it makes a tensor of something else than a storage, a shape and strides")
    if not all(type(number) is int for number in (offset, *shape, *strides)):
        raise UnsafePickleError("it makes a tensor whose offset, shape or strides are no integers")
    return TensorRecord(storage, offset, shape, strides)

"""State of a user's module: whatever a pass may change and a later pass may read.

Clipping bounds a record's own gradient. State carries a record into the gradients of others, past
the clip and the noise, so a module has none. Everything that Python reaches from the module, its
classes and the files of its code is compared: attributes, buffers, containers, closures, globals,
random generators. Installed libraries are trusted; their functions and classes count by name.
"""

import _thread
import contextlib
import functools
import io
import logging
import pickle
import sys
import types
import typing
import warnings
import weakref
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

_SMALL = 1 << 16  # bytes of an attribute that are compared at every step, not only at each epoch
_SMALL_TENSOR = 1 << 20  # elements
_CONTAINERS = (dict, OrderedDict, list, tuple, set, frozenset)
_OF_EVERY_FILE = frozenset(("__builtins__", "__spec__", "__loader__", "__warningregistry__"))
_LOCKS = (_thread.LockType, _thread.RLock)
_CACHE = type(functools.lru_cache(len))
_HOOKS = types.SimpleNamespace(
    **{
        name: table
        for name, table in vars(nn.modules.module).items()
        if name.startswith("_global_") and isinstance(table, dict)
    }
)
_OURS = ("trainables", "search_spaces", "dashboards", "sweep")


class NotComparable(Exception):
    """Names an attribute that may be state, and that nothing can compare."""


@dataclass(eq=False)
class _Node:
    """An object whose parts are compared one by one."""

    thing: Any
    name: str
    parts: dict[str, tuple[int, object]] = field(default_factory=dict)  # (bytes, what they are)
    content: Tensor | None = None  # of a tensor that training leaves alone


class State:
    """The state of `module` when this is made, to be compared with later.

    Raises: NotComparable.
    """

    def __init__(self, module: nn.Module, factory: Callable[..., Any]) -> None:
        self._own = factory.__module__.partition(".")[0]
        self._nodes: dict[int, _Node] = {}
        self._new: list[_Node] = []
        self._at = ""
        self._buffer = io.BytesIO()
        self._pickler = _Pickler(self._buffer, self._reduced)
        self._caches: set[Any] = set()
        self._trained = {id(p) for p in module.parameters() if p.requires_grad}
        self._libraries: set[int] = set()
        every = (module.named_modules(), module.named_parameters(), module.named_buffers())
        for named in every:
            for name, thing in named:
                self._node(thing, name or type(module).__name__)
        self._node(factory, factory.__qualname__)
        self._node(_HOOKS, "torch's hooks of every module")
        # Copies of iterators.
        with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
            while self._new:
                node = self._new.pop()
                for part, value in self._parts(node.thing).items():
                    node.parts[part] = self._found(node, part, value)
                if isinstance(node.thing, Tensor) and id(node.thing) not in self._trained:
                    try:
                        node.content = content_of(node.thing).clone()
                    except RuntimeError as error:
                        raise NotComparable(f"{node.name} (tensor)") from error

    def clear_caches(self) -> None:
        """Empty every functools.cache, whose content Python does not show."""
        for cache in self._caches:
            cache.cache_clear()

    def changed(self, *, deep: bool = True) -> str | None:
        """The name of something that is not as it was, or None. Not `deep`: large attributes and
        tensors are left out, except for tensors that torch knows to have changed."""
        with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
            for node in list(self._nodes.values()):
                name = self._changed_part(node, deep=deep)
                if name is not None:
                    return f"{node.name}{name}"
        return None

    def _changed_part(self, node: _Node, *, deep: bool) -> str | None:
        now = self._parts(node.thing)
        for part in now.keys() ^ node.parts.keys():
            return f".{part}"
        for part, value in now.items():
            size, before = node.parts[part]
            if not deep and size > _SMALL:
                continue
            try:
                found = self._found(node, part, value)
            except NotComparable:
                return f".{part}"
            if found != (size, before):
                return "" if isinstance(node.thing, Tensor) else f".{part}"
        content = node.content
        if content is None or not (deep or content.numel() <= _SMALL_TENSOR):
            return None
        return None if torch.equal(content, content_of(node.thing)) else ""

    def _found(self, node: _Node, part: str, value: Any) -> tuple[int, object]:
        """(number of bytes, what stands for a value of a part)."""
        kind = type(value)
        if kind in _CONTAINERS and not value:  # most are, and pickles take five times as long
            return 0, kind
        self._at = f"{node.name}.{part}"
        self._buffer.seek(0)
        self._buffer.truncate()
        self._pickler.clear_memo()
        try:
            self._pickler.dump(value)
        except Exception as error:  # whatever the user's objects raise
            raise NotComparable(f"{self._at} ({kind.__name__})") from error
        return self._buffer.tell(), hash(self._buffer.getvalue())

    def _node(self, thing: Any, name: str) -> tuple[Any, ...]:
        """What a pickle holds in place of a thing that is compared by itself."""
        if id(thing) not in self._nodes:
            node = self._nodes[id(thing)] = _Node(thing, name)
            self._new.append(node)
        return _parts_of, (id(thing),)

    def _patches(self, library: types.ModuleType | type) -> None:
        """Compare the functions of own code that stand in a library in place of its own."""
        if id(library) in self._libraries:
            return
        self._libraries.add(id(library))
        for place in library.__mro__ if isinstance(library, type) else [library]:
            for name, value in list(vars(place).items()):
                is_function = isinstance(value, types.FunctionType) and value.__module__
                if is_function and not self._is_library(value.__module__):
                    self._node(value, f"{place.__name__}.{name}")

    def _reduced(self, thing: Any) -> Any:
        """See `pickle.Pickler.reducer_override`."""
        if isinstance(thing, nn.Module | Tensor):
            return self._node(thing, self._at)
        if isinstance(thing, types.ModuleType):
            if self._is_library(thing.__name__):
                self._patches(thing)
                return _parts_of, (thing.__name__,)
            return self._node(thing, thing.__name__)
        if isinstance(thing, type | types.FunctionType):
            if isinstance(thing, type):
                self._patches(thing)
            if self._is_library(thing.__module__ or "") and (
                isinstance(thing, type) or _is_found_by_name(thing)
            ):
                return _parts_of, (thing.__module__, thing.__qualname__)
            return self._node(thing, f"{thing.__module__}.{thing.__qualname__}")
        if isinstance(thing, _CACHE):
            self._caches.add(thing)
            return self._node(thing, f"{self._at} (cache)")
        if (special := _special(thing)) is not None:
            return _parts_of, special
        if not self._is_library(type(thing).__module__):
            return self._node(thing, self._at)
        return NotImplemented

    def _parts(self, thing: Any) -> dict[str, Any]:
        if isinstance(thing, Tensor):
            hooks = (thing._backward_hooks, getattr(thing, "_post_accumulate_grad_hooks", None))
            about = (tuple(thing.shape), str(thing.dtype), str(thing.device), thing.requires_grad)
            version = None if id(thing) in self._trained else thing._version
            return {**vars(thing), "": (*about, version, hooks), "grad": thing.grad}
        if isinstance(thing, nn.Module):
            own = {k: v for k, v in vars(thing).items() if k != "training"}
            return {**own, **_slots(thing), "__class__": type(thing)}
        if isinstance(thing, types.ModuleType):
            return {k: v for k, v in vars(thing).items() if k not in _OF_EVERY_FILE}
        if isinstance(thing, type):
            own = {k: v for k, v in vars(thing).items() if k != "_abc_impl"}
            return {**own, "__bases__": thing.__bases__, "__class__": type(thing)}
        if isinstance(thing, types.FunctionType):
            return {
                **vars(thing),
                "__code__": thing.__code__,
                "__defaults__": thing.__defaults__,
                "__kwdefaults__": thing.__kwdefaults__,
                **_closure(thing),
                "file": _file_of(thing),
            }
        own = {**getattr(thing, "__dict__", {}), **_slots(thing), **_inherited(thing)}
        return {**own, "__class__": type(thing)}

    def _is_library(self, name: str) -> bool:
        top = name.partition(".")[0]
        return top in _OURS or (top != self._own and _is_installed(top))


class _Pickler(pickle.Pickler):
    def __init__(self, file: io.BytesIO, reduced: Callable[[Any], Any]) -> None:
        super().__init__(file, protocol=5)
        self._reduced = reduced

    def reducer_override(self, thing: Any) -> Any:
        return NotImplemented if thing is _parts_of else self._reduced(thing)


def _parts_of(*parts: Any) -> tuple[Any, ...]:
    """What pickles name in place of a thing; they are compared and never read."""
    return parts


def _special(thing: Any) -> tuple[Any, ...] | None:
    """What is compared of kinds that pickle cannot write, or writes without their state."""
    kind = type(thing).__name__
    if isinstance(thing, property):
        return kind, thing.fget, thing.fset, thing.fdel
    if isinstance(thing, classmethod | staticmethod):
        return kind, thing.__func__
    if isinstance(thing, types.MethodType):
        return kind, thing.__func__, thing.__self__
    if isinstance(thing, types.BuiltinFunctionType):
        return kind, thing.__qualname__, thing.__self__
    if isinstance(thing, types.MappingProxyType):
        return kind, dict(thing)
    if isinstance(thing, weakref.ref):
        return kind, thing()
    if isinstance(thing, torch.Generator):
        return kind, thing.get_state().numpy().tobytes()
    if isinstance(thing, logging.Logger):  # by name, and what own code has set
        added = vars(thing).keys() - vars(logging.Logger("")).keys()
        return kind, thing.name, *((name, vars(thing)[name]) for name in sorted(added))
    if isinstance(thing, functools.cached_property):
        return kind, thing.func
    if isinstance(thing, types.GetSetDescriptorType | types.ClassMethodDescriptorType):
        return kind, thing.__qualname__
    if isinstance(
        thing, types.CodeType | typing.TypeVar | typing.ParamSpec | torch.jit.ScriptFunction
    ):
        return kind, id(thing)
    return (kind,) if isinstance(thing, _LOCKS) else None


def content_of(tensor: Tensor) -> Tensor:
    """The bytes of a tensor, of which not-a-number equals itself."""
    return tensor.detach().to_dense().contiguous().reshape(-1).view(torch.uint8)


def _file_of(function: types.FunctionType) -> Any:
    """The module whose globals a function reads, or these globals where it is of no file."""
    own = function.__globals__
    found = sys.modules.get(own.get("__name__", ""))
    if found is not None and vars(found) is own:
        return found
    return {name: value for name, value in own.items() if name not in _OF_EVERY_FILE}


def _closure(function: types.FunctionType) -> dict[str, Any]:
    found = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            found[name] = cell.cell_contents
        except ValueError:  # not yet set
            found[name] = None
    return found


def _slots(thing: Any) -> dict[str, Any]:
    found = {}
    for kind in type(thing).__mro__:
        for name, slot in vars(kind).items():
            if isinstance(slot, types.MemberDescriptorType):
                with contextlib.suppress(AttributeError):  # not yet set
                    found[name] = slot.__get__(thing)
    return found


def _inherited(thing: Any) -> dict[str, Any]:
    """What an object of a user's class holds by a class that is not the user's."""
    if isinstance(thing, _CONTAINERS):
        return {"value": list(dict.items(thing) if isinstance(thing, dict) else thing)}
    own: Any = type(thing).__reduce__
    by_object = own is object.__reduce__
    return {} if by_object else {"value": thing.__reduce_ex__(4)}


def _is_found_by_name(function: types.FunctionType) -> bool:
    found: Any = sys.modules.get(function.__module__)
    for name in function.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is function


@functools.cache
def _is_installed(top: str) -> bool:
    """Whether a package is of Python or installed, in contrast to code in a folder."""
    if top in sys.stdlib_module_names:
        return True
    found = sys.modules.get(top)
    places = [getattr(found, "__file__", None), *getattr(found, "__path__", ())]
    return found is not None and all(  # of none, where it is of C alone
        {"site-packages", "dist-packages"} & set(Path(place).parts) for place in places if place
    )

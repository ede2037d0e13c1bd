"""Immutable nested configuration whose values are typed by their defaults."""

from __future__ import annotations

import os
import pathlib
import re
from collections.abc import Iterator, Mapping
from typing import Any, NoReturn, Self, TypeAlias

from embodied.core.suggest import hint

Scalar: TypeAlias = bool | int | float | str
Value: TypeAlias = Scalar | tuple[Scalar, ...]

_PLAIN_KEY = re.compile(r"[A-Za-z0-9_.-]+")
_TRUE = ("true", "yes", "on", "y", "t", "1")
_FALSE = ("false", "no", "off", "n", "f", "0")
_EXPECTED = {bool: "true or false", int: "an integer", float: "a number", str: "a text"}


class ConfigError(ValueError):
    """A mistake in an option; the message is one sentence meant for the user."""


class UnknownKeyError(ConfigError, KeyError):
    """An option, section or pattern that names nothing; the message has the closest names."""

    def __str__(self) -> str:
        return str(self.args[0])


class ValueTypeError(ConfigError, TypeError):
    """A value that cannot be read as the type of its default."""


class Config(Mapping[str, Any]):
    """Options by dotted name, readable as attributes and items, never changed in place.

    `config.agent.opt.lr`, `config['agent.opt.lr']` and `config['agent']['opt.lr']` are the same
    value. As a mapping a config holds its first level, so `Layer(**config.agent.enc.simple)` works.
    Values are booleans, integers, floats, strings and tuples of them; lists become tuples. Options
    named like a method (`update`, `keys`, ...) are reached as items only.

    Args:
      values: Options as nested mappings, by dotted key, or a mix of both.
      **kwargs: More of the same.

    Raises:
      ConfigError: On a key that is no name, or a value of an unsupported type.
    """

    __slots__ = ("_tree",)
    _tree: dict[str, Any]

    def __init__(self, values: Mapping[str, Any] | None = None, **kwargs: Any) -> None:
        nested: dict[str, Any] = {}
        for key, value in _flatten({**(values or {}), **kwargs}).items():
            _insert(nested, key, _freeze(key, value))
        object.__setattr__(self, "_tree", _wrap(nested))

    @property
    def flat(self) -> dict[str, Value]:
        """Every option by its dotted name, in order, as a new dict."""
        return _flatten(self)

    def match(self, key: str) -> tuple[str, ...]:
        """List the options that a key or pattern stands for.

        Args:
          key: A dotted name, or a regular expression that has to match the whole dotted name. A
            key is taken for a pattern if it contains anything besides letters, digits and `_.-`.

        Raises:
          UnknownKeyError: If there is no such option, with the closest valid names.
        """
        options = self.flat
        if key in options:
            return (key,)
        if key in self:
            raise UnknownKeyError(
                f"'{key}' is a section, not an option; it has "
                + ", ".join(f"'{key}.{child}'" for child in self[key])
                + "."
            )
        if _PLAIN_KEY.fullmatch(key):
            raise UnknownKeyError(f"Unknown option '{key}'.{hint(key, options)}")
        try:
            pattern = re.compile(key)
        except re.error as error:
            raise UnknownKeyError(f"'{key}' is not a regular expression: {error}.") from None
        matched = tuple(name for name in options if pattern.fullmatch(name))
        if not matched:
            plain = re.sub(r"^\W+|\\", "", key)
            raise UnknownKeyError(
                f"The pattern '{key}' matches no option; it has to match the whole dotted name."
                + hint(plain, options)
            )
        return matched

    def resolve(self, values: Mapping[str, Any]) -> dict[str, Value]:
        """Expand patterns and convert values, without changing anything.

        Args:
          values: Nested mappings, dotted keys or patterns to new values. Later entries win.

        Returns:
          Exact dotted names to values of the type that the option has in this config.

        Raises:
          UnknownKeyError: If a key names no option.
          ValueTypeError: If a value does not fit the type of the option.
        """
        options = self.flat
        resolved: dict[str, Value] = {}
        for key, value in _flatten(values).items():
            for name in (key,) if key in options else self.match(key):
                resolved[name] = convert(name, value, options[name])
        return resolved

    def update(self, values: Mapping[str, Any] | None = None, **kwargs: Any) -> Self:
        """Return a config with some options changed; arguments and errors as in `resolve`."""
        return type(self)({**self.flat, **self.resolve({**(values or {}), **kwargs})})

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the config as nested YAML, replacing the file in one step."""
        target = pathlib.Path(path)
        partial = target.with_name(target.name + ".partial")
        with partial.open("w", encoding="utf-8") as file:
            _yaml().dump(_plain(self), file)
        partial.replace(target)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a config that `save` wrote, or any YAML file of nested options.

        Raises:
          ConfigError: If the file does not hold a mapping of options.
        """
        values = _yaml().load(pathlib.Path(path).read_text(encoding="utf-8"))
        if not isinstance(values, Mapping):
            raise ConfigError(f"{path} does not hold options by name.")
        return cls(values)

    def __getitem__(self, key: str) -> Any:
        node = self._find(key)
        if node is None:
            raise UnknownKeyError(f"Unknown option '{key}'.{hint(str(key), self.flat)}")
        return node

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "_tree":
            raise AttributeError(name)
        try:
            return self._tree[name]
        except KeyError:
            raise AttributeError(f"Unknown option '{name}'.{hint(name, self.flat)}") from None

    def __contains__(self, key: object) -> bool:
        return self._find(key) is not None

    def __iter__(self) -> Iterator[str]:
        return iter(self._tree)

    def __len__(self) -> int:
        return len(self._tree)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Mapping):
            return NotImplemented
        return self.flat == (other if isinstance(other, Config) else Config(other)).flat

    def __hash__(self) -> int:
        return hash(tuple(self.flat.items()))

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise TypeError(f"A config does not change: use config.update({{'{name}': ...}}).")

    def __delattr__(self, name: str) -> NoReturn:
        raise TypeError("A config does not change.")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.flat,)

    def __repr__(self) -> str:
        return f"Config({_plain(self)!r})"

    def _find(self, key: object) -> Any:
        """The section or value at a dotted key, or None if there is none (no value is None)."""
        node: Any = self
        for part in key.split(".") if isinstance(key, str) else ():
            node = node._tree.get(part) if isinstance(node, Config) else None
        return None if node is self else node

    def __str__(self) -> str:
        width = max((len(key) for key in self.flat), default=0)
        return "\n".join(f"{key:<{width}}  {format_value(v)}" for key, v in self.flat.items())


def convert(key: str, value: Any, default: Value) -> Value:
    """Read a value as the type of an option's default.

    Strings are read the way people write them: `yes` is a boolean and `1e3` an integer where the
    default is one, `a,b` is a list where the default is one (whose entries get the type of the
    default's first entry).

    Args:
      key: Name of the option, for the error message.
      value: The new value.
      default: The current value, which decides the type.

    Raises:
      ValueTypeError: If the value cannot be read as that type without losing something.
    """
    if isinstance(default, tuple):
        if isinstance(value, str):
            value = [part.strip() for part in value.split(",") if part.strip()]
        if not isinstance(value, list | tuple):
            value = [value]
        if not default:
            return tuple(_freeze_scalar(key, entry) for entry in value)
        return tuple(_convert_scalar(key, entry, default[0]) for entry in value)
    return _convert_scalar(key, value, default)


def format_value(value: Value) -> str:
    """Write a value the way a flag takes it: `[a, b]` for lists, quotes around an empty text."""
    if isinstance(value, tuple):
        return f"[{', '.join(map(format_value, value))}]"
    if isinstance(value, str):
        return value or "''"
    if isinstance(value, float) and abs(value) >= 1e4:
        short = re.sub(r"\.?0*e\+0?", "e", f"{value:e}")
        return short if float(short) == value else repr(value)
    return repr(value)


def _convert_scalar(key: str, value: Any, default: Scalar) -> Scalar:
    kind: type = type(default)
    result: bool | float | str | None = None
    if kind is bool:
        text = str(value).strip().lower()
        if isinstance(value, bool | int | str) and text in _TRUE + _FALSE:
            result = text in _TRUE
    elif kind is str:
        if isinstance(value, int | float | str) and not isinstance(value, bool):
            result = str(value)
    elif isinstance(value, int | float | str) and not isinstance(value, bool):
        result = _to_number(value, kind)
    if result is None:
        raise ValueTypeError(
            f"Option '{key}' takes {_EXPECTED[kind]} (like {format_value(default)}), got {value!r}."
        )
    return result


def _to_number(value: float | str, kind: type) -> float | None:
    """Read a number of the given kind (int or float); None if that is not possible exactly."""
    try:
        number = int(value) if isinstance(value, str) else value
    except ValueError:
        try:
            number = float(value)
        except ValueError:
            return None
    if kind is float:
        return float(number)
    if isinstance(number, int):
        return number
    return int(number) if number.is_integer() else None


def _freeze(key: str, value: Any) -> Value:
    """Check that a value is of a supported type and make it immutable."""
    if isinstance(value, list | tuple):
        return tuple(_freeze_scalar(key, entry) for entry in value)
    return _freeze_scalar(key, value)


def _freeze_scalar(key: str, value: Any) -> Scalar:
    kinds: tuple[type[Scalar], ...] = (bool, int, float, str)
    for kind in kinds:  # Also unwraps subclasses, such as those of a YAML parser.
        if isinstance(value, kind):
            return kind(value)
    raise ValueTypeError(
        f"Option '{key}' is a {type(value).__name__}; options are booleans, integers, floats, "
        "texts and flat lists of them."
    )


def _flatten(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in values.items():
        if not isinstance(key, str):
            raise ConfigError(f"Option names are texts, got {key!r} below '{prefix}'.")
        if isinstance(value, Mapping):
            flat.update(_flatten(value, f"{prefix}{key}."))
        else:
            flat[prefix + key] = value
    return flat


def _insert(nested: dict[str, Any], key: str, value: Value) -> None:
    *parents, last = key.split(".")
    node = nested
    for part in parents:
        node = node.setdefault(part, {})
        if not isinstance(node, dict):
            raise ConfigError(f"'{key}' cannot exist: '{part}' is an option, not a section.")
    if not _PLAIN_KEY.fullmatch(key) or not all(key.split(".")):
        raise ConfigError(f"'{key}' is not a name for an option.")
    if isinstance(node.get(last), dict):
        raise ConfigError(f"'{key}' cannot be an option: it is a section already.")
    node[last] = value


def _wrap(nested: dict[str, Any]) -> dict[str, Any]:
    """Turn the nested dicts below the first level into configs."""
    tree = {}
    for key, value in nested.items():
        if isinstance(value, dict):
            section = Config()
            object.__setattr__(section, "_tree", _wrap(value))
            value = section
        tree[key] = value
    return tree


def _plain(config: Config) -> dict[str, Any]:
    """Nested dicts and lists, for printing and writing."""
    plain: dict[str, Any] = {}
    for key, value in config.items():
        if isinstance(value, Config):
            plain[key] = _plain(value)
        else:
            plain[key] = list(value) if isinstance(value, tuple) else value
    return plain


def _yaml() -> Any:
    import ruamel.yaml  # Here because it takes a moment that env workers need not spend.

    yaml: Any = ruamel.yaml.YAML(typ="safe", pure=True)
    yaml.default_flow_style = False
    yaml.width = 120
    yaml.sort_base_mapping_type_on_output = False
    return yaml

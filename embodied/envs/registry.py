"""From a task name on the command line to an environment.

A task is `<suite>_<rest>`, such as `dmc_walker_walk`, or an import path, `package.module:Name`, of
a class or function that makes an environment of this project, of Gymnasium or of dm_env. Adapters
and what they need are imported only by `make`; `check_task` imports nothing heavy. Environments
that are pure functions of JAX arrays are adapted, see `embodied.envs.pure`.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import textwrap
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from embodied.core.batched_env import FirstOfBatch
from embodied.core.interfaces import Env
from embodied.core.suggest import hint
from embodied.core.wrappers import ResizeImage
from embodied.envs import import_path
from embodied.envs.catalog import SUITES, Suite
from embodied.envs.errors import EnvError, MissingExtra, UnknownOption, UnknownTask
from embodied.envs.pure.kind import is_pure

#: The suite of an import path, whose config block holds the constructor arguments.
CUSTOM = "custom"
#: Options of what adapts foreign environments, and of pictures. They hold for import paths whose
#: constructor lacks them, and for the ids of Gymnasium.
ADAPTER_OPTIONS = ("max_classes", "size")
#: Option of what adapts environments in JAX.
PICTURES = "log_image_every"
#: Images of less height whose other sides are not smaller have their channels in front.
SMALLEST_SIDE = 16
#: Characters per line of `listing`.
LINE_LENGTH = 100


def make(
    task: str, overrides: Mapping[str, Any] | None = None, *, seed: int = 0, index: int = 0
) -> Env:
    """Make one instance of an environment.

    Args:
      task: `<suite>_<rest>` or an import path.
      overrides: Keyword arguments of the constructor.
      seed: Seed of the run. A constructor that has a `seed` gets one derived from it and `index`,
        unless the overrides name it.
      index: Number of this instance among those of the run, also handed to a constructor that has
        an `index`.

    Raises:
      UnknownTask: The suite, the task or the import path does not exist.
      UnknownOption: The constructor has no such keyword.
      MissingExtra: A package that the suite needs is not installed.
    """
    if is_batched(task, overrides):
        return FirstOfBatch(make_batch(task, overrides, 1, seed=seed, index=index))
    target, arguments, keywords, adapter = _find(task, overrides)
    filled = {"seed": instance_seed(seed, index), "index": index}
    size = adapter.pop("size", None)
    env = _call(target, arguments, keywords, filled, task)
    return _resized(_adapt(env, task, seed=filled["seed"], **adapter), size)


def check(task: str, overrides: Mapping[str, Any] | None = None) -> None:
    """Check all that can be known without making an environment, whose module is imported.

    Environments of suites in JAX are made, as nothing is computed before the first episode.

    Args:
      task: As in `make`.
      overrides: Keyword arguments of the constructor.

    Raises:
      UnknownTask: The suite, the task or the import path does not exist.
      UnknownOption: The constructor has no such keyword.
      MissingExtra: A package that the suite needs is not installed.
    """
    batched = is_batched(task, overrides)
    target, arguments, keywords, _ = _find(task, overrides, batched)
    _check_keywords(target, arguments, keywords, task)
    suite = suite_of(task)
    if suite != CUSTOM and SUITES[suite].pure:
        construct(task, overrides)  # Which computes nothing, and knows the names of the package.
        return
    own = getattr(target, "check", None) if suite != CUSTOM else None
    if own is not None:
        own(*arguments, **keywords)


def is_batched(task: str, overrides: Mapping[str, Any] | None = None) -> bool:
    """Whether all instances are made at once, as a `BatchedEnv`.

    That is so for suites with the option `vector` if it is set, for suites in JAX, and for an
    import path of a class in JAX or whose constructor has the keyword `num_envs`, unless the
    overrides name it. The module of an import path is imported.

    Raises:
      UnknownTask: The suite, the task or the import path does not exist.
      MissingExtra: A package that the suite needs is not installed.
    """
    check_task(task)
    suite, rest = split(task)
    options = overrides or {}
    if suite != CUSTOM:
        entry = SUITES[suite]
        return entry.pure or (entry.batched is not None and bool(options.get("vector")))
    target = import_path.load(rest)
    if is_pure(target):
        return True
    return "num_envs" not in options and "num_envs" in _keywords(target, 0)[0]


def construct(task: str, overrides: Mapping[str, Any] | None = None) -> Any:
    """Call the constructor of a task, and return what it makes as it is.

    Raises:
      UnknownTask: The suite, the task or the import path does not exist.
      UnknownOption: The constructor has no such keyword.
      MissingExtra: A package that the suite needs is not installed.
    """
    target, arguments, keywords, _ = _find(task, overrides)
    return _call(target, arguments, keywords, {}, task)


def needs_processes(task: str) -> bool:
    """Whether only one instance of a task should be in a process, see `Suite`.

    Raises:
      UnknownTask: There is no such suite, or nothing follows it.
    """
    suite = suite_of(task)
    return suite != CUSTOM and SUITES[suite].processes


def make_batch(
    task: str,
    overrides: Mapping[str, Any] | None,
    envs: int,
    *,
    seed: int = 0,
    index: int = 0,
) -> Env:
    """Make many instances that are stepped at once.

    Args:
      task: A task for which `is_batched` holds.
      overrides: Keyword arguments of the constructor.
      envs: Number of instances, handed to the constructor as `num_envs`.
      seed: Seed of the run. A constructor that has `seeds` gets one per instance, derived as in
        `make`; one that has `seed` gets the first of them.
      index: Number of the first instance among those of the run.

    Returns:
      A `BatchedEnv`.

    Raises:
      UnknownOption: The constructor has no such keyword.
      EnvError: What it makes is no batch of environments.
    """
    target, arguments, keywords, adapter = _find(task, overrides, batched=True)
    seeds = [instance_seed(seed, index + number) for number in range(envs)]
    filled = {"num_envs": envs, "seeds": seeds, "seed": seeds[0], "index": index}
    size = adapter.pop("size", None)
    env: Any = _call(target, arguments, keywords, filled, task)
    if is_pure(env):
        return _resized(_from_pure(env, envs, seeds[0], **adapter), size)
    if hasattr(env, "single_observation_space"):
        from embodied.envs.from_gymnasium_vector import FromGymnasiumVector

        env = FromGymnasiumVector(env, seeds=seeds, **adapter)
    if not hasattr(env, "batch_size"):
        raise EnvError(
            f"Got {type(env).__name__} from {task!r}, whose constructor takes num_envs, expected "
            "a BatchedEnv or a gymnasium.vector.VectorEnv."
        )
    return _resized(env, size)


def check_task(task: str) -> None:
    """Check a task name and that what it needs is installed, without importing any of it.

    Raises:
      UnknownTask: The suite, the task or the module of the import path does not exist.
      MissingExtra: A package that the suite needs is not installed.
    """
    suite, rest = split(task)
    if suite == CUSTOM:
        import_path.check(rest)
        return
    entry = SUITES[suite]
    if entry.tasks is not None and rest not in entry.tasks:
        known = [f"{suite}_{name}" for name in entry.tasks]
        suggestion = hint(task, known) or f" For example {entry.example!r}."
        raise UnknownTask(f"Unknown task {rest!r} in suite {suite!r}.{suggestion}")
    missing = _missing(entry)
    if missing:
        how = f"install the extra {entry.extra!r}, for example with: pip install -e"
        how = f"{how} '.[{entry.extra}]'" if entry.extra else entry.hint
        raise MissingExtra(f"Task {task!r} needs {', '.join(missing)}; {how}")


def split(task: str) -> tuple[str, str]:
    """Split a task into its suite and the rest; an import path is `('custom', path)`.

    Raises:
      UnknownTask: There is no such suite, or nothing follows it.
    """
    if import_path.matches(task):
        return CUSTOM, task
    suite, _, rest = task.partition("_")
    if suite not in SUITES:
        raise UnknownTask(
            f"Unknown suite {suite!r} in task {task!r}, expected <suite>_<task> with a suite of "
            f"{', '.join(SUITES)}, or an import path like package.module:ClassName."
            f"{hint(task, tasks()) or hint(suite, SUITES)}"
        )
    if not rest:
        raise UnknownTask(
            f"Task {task!r} is only a suite, expected <suite>_<task> such as "
            f"{SUITES[suite].example!r}."
        )
    return suite, rest


def suite_of(task: str) -> str:
    """Name the suite of a task, which is also its block in the `env` section of the config.

    Raises:
      UnknownTask: There is no such suite, or nothing follows it.
    """
    return split(task)[0]


def tasks() -> list[str]:
    """All task names of the suites whose tasks are known beforehand."""
    return [f"{suite}_{name}" for suite, entry in SUITES.items() for name in entry.tasks or ()]


def listing() -> str:
    """Describe suites, whether they can be used here, and their tasks, for `--list_tasks`."""
    lines = []
    for suite, entry in SUITES.items():
        missing = _missing(entry)
        extra = f": extra {entry.extra!r}" if entry.extra else ""
        state = f"needs {', '.join(missing)}{extra}" if missing else "available"
        lines += textwrap.wrap(f"{suite} ({state}). {entry.hint}", LINE_LENGTH)
        if entry.tasks is None:
            lines.append(f"  any, for example {entry.example}")
        names = " ".join(f"{suite}_{name}" for name in entry.tasks or ())
        lines += textwrap.wrap(
            names,
            LINE_LENGTH,
            initial_indent="  ",
            subsequent_indent="  ",
            break_long_words=False,
            break_on_hyphens=False,
        )
    lines.append("package.module:Name (any environment by import path, arguments in env.custom)")
    return "\n".join(lines)


def instance_seed(seed: int, index: int) -> int:
    """Derive the seed of one environment instance: 31 bits, unrelated for neighbouring inputs."""
    state = np.random.SeedSequence([abs(seed), int(seed < 0), index]).generate_state(1)
    return int(state[0]) & 0x7FFFFFFF


def _missing(entry: Suite) -> list[str]:
    """List required modules that are not installed, without importing them."""
    return [name for name in entry.requires if importlib.util.find_spec(name) is None]


def _find(
    task: str, overrides: Mapping[str, Any] | None, batched: bool = False
) -> tuple[Callable[..., Any], tuple[str, ...], dict[str, Any], dict[str, Any]]:
    """Find the constructor of a task, its positional and keyword arguments, and adapter options."""
    check_task(task)
    suite, rest = split(task)
    keywords = dict(overrides or {})
    if suite == CUSTOM:
        target = import_path.load(rest)
        known, has_any = _keywords(target, 0)
        options = (*ADAPTER_OPTIONS, PICTURES) if is_pure(target) else ADAPTER_OPTIONS
        lacking = [key for key in options if key not in known and not has_any]
        adapter = {key: keywords.pop(key) for key in lacking if key in keywords}
        return target, (), keywords, adapter
    entry = SUITES[suite]
    if entry.batched is not None:
        keywords.pop("vector", None)
    module, name = (entry.batched if batched else None) or (entry.module, entry.name)
    adapter = {}
    if entry.pure and PICTURES in keywords:
        adapter[PICTURES] = keywords.pop(PICTURES)
    # A single number is an option of the environment itself, such as the size of a grid.
    if suite in ("gymnasium", "gym") and isinstance(keywords.get("size"), tuple | list):
        adapter["size"] = keywords.pop("size")
    return _adapter(suite, module, name), (rest,), {**dict(entry.options), **keywords}, adapter


def _call(
    target: Callable[..., Any],
    arguments: tuple[str, ...],
    keywords: Mapping[str, Any],
    filled: Mapping[str, Any],
    task: str,
) -> Any:
    """Call a constructor with what the user wants and what we know, as far as it takes that."""
    known = _check_keywords(target, arguments, keywords, task)
    ours = {key: value for key, value in filled.items() if key in known}
    return target(*arguments, **{**ours, **keywords})


def _check_keywords(
    target: Callable[..., Any], arguments: tuple[str, ...], keywords: Mapping[str, Any], task: str
) -> list[str]:
    """Check that a constructor has all keywords, and list those that it has."""
    known, has_any = _keywords(target, skip=len(arguments))
    for key in keywords:
        if key not in known and not has_any:
            names = [name for name in known if name != "index"]
            raise UnknownOption(
                f"Unknown option {key!r} for {task!r}, expected one of "
                f"{', '.join(names) or 'none'}.{hint(key, names)}"
            )
    return known


def _adapter(suite: str, module: str, name: str) -> Callable[..., Any]:
    """Import a class of a suite."""
    try:
        adapter: Callable[..., Any] = getattr(importlib.import_module(module), name)
        return adapter
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("embodied"):
            raise
        how = f"install the extra {SUITES[suite].extra!r}." if SUITES[suite].extra else ""
        raise MissingExtra(f"Suite {suite!r} cannot be imported ({error}); {how}") from error


def _keywords(target: Callable[..., Any], skip: int) -> tuple[list[str], bool]:
    """List the keywords of a constructor after the first few, and whether it takes any others."""
    try:
        parameters = list(inspect.signature(target).parameters.values())
    except ValueError:
        # Classes written in C may not tell; they check their own arguments.
        return [], True
    names = [
        item.name
        for item in parameters
        if item.kind in (item.POSITIONAL_OR_KEYWORD, item.KEYWORD_ONLY)
    ]
    return names[skip:], any(item.kind == item.VAR_KEYWORD for item in parameters)


def _adapt(env: Any, task: str, seed: int, **options: Any) -> Env:
    """Wrap what a constructor returned if it has a foreign interface."""
    if is_pure(env):
        return FirstOfBatch(_from_pure(env, 1, seed, **options))
    if hasattr(env, "obs_space") and hasattr(env, "act_space"):
        ours: Env = env
        return ours
    if hasattr(env, "observation_space") and hasattr(env, "action_space"):
        from embodied.envs.from_gymnasium import FromGymnasium

        return FromGymnasium(env, seed=seed, **options)
    if hasattr(env, "observation_spec") and hasattr(env, "action_spec"):
        from embodied.envs.from_dm import FromDM

        return FromDM(env, **options)
    raise EnvError(
        f"Got {type(env).__name__} from {task!r}, expected an environment with obs_space and "
        "act_space, or one of Gymnasium or dm_env."
    )


def _from_pure(env: Any, envs: int, seed: int, log_image_every: int = 0, **_: Any) -> Env:
    """Step copies of a pure environment from the host."""
    from embodied.envs.pure.from_pure import FromPure

    return FromPure(env, envs, seed, log_image_every)


def _resized(env: Env, size: Any) -> Env:
    """Bring all pictures of an environment to a height and width; None leaves them as they are."""
    if size is None:
        return env
    if not isinstance(size, tuple | list) or len(size) != 2:
        raise EnvError(f"Got size {size}, expected height and width of pictures.")
    for key, space in env.obs_space.items():
        if len(space.shape) == 3 and not key.startswith("log/"):
            if space.shape[0] < SMALLEST_SIDE <= min(space.shape[1:]):
                raise EnvError(
                    f"Got image {key!r} of shape {space.shape} to resize, expected height, width, "
                    "channels: move the channels to the end in the environment."
                )
            try:
                env = ResizeImage(env, key, (int(size[0]), int(size[1])))
            except ImportError as error:
                raise MissingExtra(str(error)) from error
    return env

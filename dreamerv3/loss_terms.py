"""The losses by name: each name once, also where observations are named like other losses."""

from __future__ import annotations

import logging
from collections import UserDict
from collections.abc import Collection, Iterable

import jax

LOGGER = logging.getLogger(__name__)


class LossTerms(UserDict[str, jax.Array]):
    """Losses by name, to which a name can be added only once.

    A second loss of a name would replace the first one, which then is silently not learned.
    """

    def __setitem__(self, name: str, loss: jax.Array) -> None:
        """Add a loss.

        Raises:
          ValueError: There is one of that name.
        """
        if name in self:
            raise ValueError(
                f"Got two losses named '{name}', the first of shape {self[name].shape}, the second "
                f"of shape {loss.shape}, expected a name for each: one of them would not be "
                "learned; give one another name here and in agent.loss_scales."
            )
        super().__setitem__(name, loss)


def reconstruction_names(observations: Iterable[str], others: Collection[str]) -> dict[str, str]:
    """Name the reconstruction loss of each observation: by its key, unless that is taken.

    An observation named like another loss gets a name such as ``rec/value``, and a warning says so.

    Args:
      observations: Keys of the observations that are reconstructed.
      others: Names of all other losses.

    Returns:
      Name of the loss by observation key.
    """
    names = {key: key for key in observations}
    for key in sorted(names.keys() & set(others)):
        while names[key] in {*others, *(name for name in names if name != key)}:
            names[key] = f"rec/{names[key]}"
        LOGGER.warning(
            "The observation '%s' has the name of another loss; its reconstruction loss is called "
            "'%s'.",
            key,
            names[key],
        )
    return names

import jax.numpy as jnp
import numpy as np
import pytest

from embodied.jax.compiled import CompiledFunction


def test_outputs_that_are_not_a_number_are_an_error_only_inside_and_only_on_request():
    values = np.array([-1.0], np.float32)

    def outputs(x):
        return {"loss": {"log": jnp.log(x), "abs": jnp.abs(x)}, "count": x.astype(int)}

    with pytest.raises(FloatingPointError, match="'loss/log' contains"):
        CompiledFunction(outputs, debug_nans=True)(values)
    assert np.isnan(CompiledFunction(outputs)(values)["loss"]["log"]).all()
    assert np.isnan(jnp.log(values)).all()

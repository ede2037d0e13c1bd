"""The module system: state, names, randomness, transformations, errors, threads."""

import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from embodied.jax import nj


class Affine(nj.Module):
    bias: "bool" = True
    scale: float = 1.0

    def __init__(self, units):
        self.units = units

    def __call__(self, x):
        kernel = self.value("kernel", jnp.ones, (x.shape[-1], self.units))
        y = self.scale * x @ kernel
        return y + self.value("bias", jnp.zeros, (self.units,)) if self.bias else y


class Wide(Affine):
    extra: int = 3


class Stack(nj.Module):
    def __init__(self, layers):
        self.layers = layers

    def __call__(self, x):
        for index in range(self.layers):
            x = self.sub(f"layer{index}", Affine, 2)(x)
        return x


class Counter(nj.Module):
    def __call__(self):
        count = self.sub("count", nj.Variable, jnp.zeros, (), jnp.int32)
        return count.write(count.read() + 1)


def test_init_creates_the_named_entries_and_pure_reads_them():
    stack = Stack(2, name="stack")
    state = nj.init(stack)({}, jnp.ones((1, 2)))
    assert set(state) == {f"stack/layer{i}/{name}" for i in range(2) for name in ("kernel", "bias")}
    after, out = nj.pure(stack)(state, jnp.ones((1, 2)))
    assert np.array_equal(out, [[4, 4]])
    assert after.keys() == state.keys()


def test_hyper_parameters_are_keywords_inherited_and_read_only():
    layer = Wide(4, bias=False, name="wide")
    assert (layer.bias, layer.scale, layer.extra, layer.units) == (False, 1.0, 3, 4)
    with pytest.raises(AttributeError, match="read-only"):
        layer.bias = True
    with pytest.raises(TypeError, match="name"):
        Wide(4)
    with pytest.raises(TypeError, match="wrong"):
        Wide(4, wrong=1, name="wide")


def test_missing_hyper_parameter_is_named():
    class Needy(nj.Module):
        units: int

    with pytest.raises(TypeError, match="'needy' needs the hyper-parameter 'units'"):
        Needy(name="needy")
    assert Needy(units=3, name="needy").units == 3


def test_scopes_name_modules():
    with nj.scope("outer"), nj.scope("inner"):
        assert Affine(1, name="a").path == "outer/inner/a"
    assert Affine(1, name="a").path == "a"


def test_existing_child_of_another_class_is_refused():
    class Parent(nj.Module):
        def __call__(self, x):
            self.sub("child", Affine, 2)(x)
            self.sub("child", Wide, 2)(x)

    with pytest.raises(TypeError, match="'child' of 'parent'"):
        nj.init(Parent(name="parent"))({}, jnp.ones((1, 2)))


def test_missing_entry_and_forbidden_write_are_errors():
    counter = Counter(name="counter")
    with pytest.raises(KeyError, match="counter/count/value"):
        nj.pure(counter)({})
    state = nj.init(counter)({})
    assert state["counter/count/value"] == 0
    with pytest.raises(RuntimeError, match="modify=True"):
        nj.pure(counter)(state)
    assert nj.pure(counter)(state, ignore=True)[0] == state
    assert nj.pure(counter)(state, modify=True)[0]["counter/count/value"] == 1


def test_errors_name_the_innermost_module():
    class Outer(nj.Module):
        def __call__(self, x):
            return self.sub("inner", Affine, 2)(x)

    outer = Outer(name="outer")
    state = nj.init(outer)({}, jnp.ones((1, 2)))
    with pytest.raises(TypeError) as info:
        nj.pure(outer)(state, jnp.ones((1, 3)))
    assert info.value.__notes__[-1] == "In module 'outer/inner' (Affine.__call__)."


def test_writes_keep_shape_and_dtype():
    variable = nj.Variable(jnp.zeros, 3, name="v")
    state = nj.init(variable.read)({})
    with pytest.raises(ValueError, match=r"'v/value', expected float32\[3\]"):
        nj.pure(lambda: variable.write(jnp.zeros(2)))(state, modify=True)


def test_tree_paths_follow_the_structure():
    import collections

    Pair = collections.namedtuple("Pair", ["count", "rest"])
    tree = nj.Tree(lambda: (Pair(jnp.zeros(()), {"a/b": jnp.ones(2)}), jnp.zeros(1)), name="t")
    state = nj.init(tree.read)({})
    assert set(state) == {"t/0/count", "t/0/rest/a/b", "t/1"}

    def double():
        tree.write(jax.tree.map(lambda x: 2 * x, tree.read()))
        return tree.read()

    state, out = nj.pure(double)(state, modify=True)
    assert np.array_equal(out[0].rest["a/b"], [2, 2])
    assert np.array_equal(state["t/0/rest/a/b"], [2, 2])


def test_seeds_differ_and_repeat():
    def draw():
        return jnp.stack([nj.seed(), nj.seed()])

    first, second = (nj.pure(draw)({}, seed=s)[1] for s in (0, 1))
    assert not np.array_equal(first[0], first[1])
    assert not np.array_equal(first, second)
    assert np.array_equal(first, nj.pure(draw)({}, seed=0)[1])
    with pytest.raises(RuntimeError, match="no seed"):
        nj.pure(draw)({})


def test_grad_matches_jax_and_keeps_writes():
    layer, counter = Affine(1, name="affine"), Counter(name="counter")

    def loss(x):
        counter()
        return (layer(x) ** 2).sum(), {"aux": x}

    def train(x):
        return nj.grad(loss, [layer], has_aux=True)(x)

    x = jnp.array([[1.0, 2.0]])
    state = nj.init(train)({}, x)
    assert state["counter/count/value"] == 0
    state, (value, params, grads, aux) = jax.jit(
        lambda state, x: nj.pure(train)(state, x, modify=True)
    )(state, x)
    assert value == 9
    assert set(params) == set(grads) == {"affine/kernel", "affine/bias"}
    assert np.array_equal(grads["affine/kernel"], [[6], [12]])
    assert state["counter/count/value"] == 1
    assert np.array_equal(aux["aux"], x)
    with pytest.raises(ValueError, match="nothing/"):
        nj.pure(lambda x: nj.grad(lambda x: x.sum(), ["nothing"])(x))(state, x)


def test_scan_carries_writes_and_moves_axes():
    layer, counter = Affine(2, bias=False, name="affine"), Counter(name="counter")

    def run(carry, xs):
        def step(carry, x):
            return carry + layer(x), jnp.full((2,), counter())

        return nj.scan(step, carry, xs, axis=1)

    xs = jnp.arange(12.0).reshape(2, 3, 2)
    state = nj.init(run)({}, jnp.zeros((2, 2)), xs, seed=0)
    assert state["counter/count/value"] == 0
    state, (last, counts) = nj.pure(run)(state, jnp.zeros((2, 2)), xs, seed=0, modify=True)
    assert np.array_equal(last, xs.sum((1, 2))[:, None] * np.ones((2, 2)))
    assert np.array_equal(counts, [[1, 2, 3], [1, 2, 3]])
    assert state["counter/count/value"] == 3


def test_every_step_of_a_scan_draws_another_number():
    def draws():
        return nj.scan(lambda c, _: (c, jax.random.uniform(nj.seed())), 0, None, length=4)[1]

    assert len(set(nj.pure(draws)({}, seed=0)[1].tolist())) == 4


def test_nested_scans_trace_linearly():
    counter, traces = Counter(name="counter"), []

    def nested(depth):
        if depth == 0:
            traces.append(1)
            counter()
            return

        def step(carry, _):
            nested(depth - 1)
            return carry, None

        nj.scan(step, 0, None, length=2)

    state = nj.init(counter)({})
    for depth in (1, 2, 4, 6):
        traces.clear()
        after, _ = nj.pure(lambda depth=depth: nested(depth))(state, modify=True)
        assert after["counter/count/value"] == 2**depth
        # JAX itself may trace the body of a scan a constant number of times.
        assert len(traces) <= 3 * (depth + 1)


def test_cond_keeps_what_the_other_branch_wrote():
    first, second = Counter(name="first"), Counter(name="second")

    def run(pred):
        return nj.cond(pred, first, second)

    state = nj.init(run)({}, True)
    for pred in (True, False):
        after, out = nj.pure(run)(state, pred, modify=True)
        assert out == 1
        assert after["first/count/value"] == int(pred)
        assert after["second/count/value"] == int(not pred)


def test_while_loop_carries_writes():
    counter = Counter(name="counter")

    def run(n):
        return nj.while_loop(lambda i: i < n, lambda i: (counter(), i + 1)[1], 0)

    state = nj.init(run)({}, 5, seed=0)
    after, out = nj.pure(run)(state, 5, seed=0, modify=True)
    assert (out, after["counter/count/value"]) == (5, 5)


def test_stop_gradient_makes_parameters_constant_but_not_arguments():
    layer, counter = Affine(1, bias=False, name="affine"), Counter(name="counter")

    def frozen(x):
        counter()
        return layer(x).sum()

    def loss(x):
        return nj.stop_gradient(frozen)(layer(x) * jnp.ones((1, 2)))

    x = jnp.ones((1, 2))
    state = nj.init(loss)({}, x)
    run = nj.pure(lambda x: nj.grad(loss, [layer])(x))
    state, (_, _, grads) = run(state, x, modify=True)
    assert np.array_equal(grads["affine/kernel"], [[2], [2]])
    assert state["counter/count/value"] == 1


def test_checkpoint_gives_the_same_gradient():
    layer, counter = Affine(1, name="affine"), Counter(name="counter")

    def loss(x, wrap):
        def inner(x):
            counter()
            return jnp.sin(layer(x)).sum()

        return (nj.checkpoint(inner) if wrap else inner)(x)

    x = jnp.ones((1, 2))
    state = nj.init(loss)({}, x, False)
    results = [
        nj.pure(lambda x, wrap=wrap: nj.grad(lambda x: loss(x, wrap), [layer])(x))(
            state, x, modify=True
        )
        for wrap in (False, True)
    ]
    for state, (_, _, grads) in results:
        assert state["counter/count/value"] == 1
        assert np.allclose(grads["affine/bias"], results[0][1][2]["affine/bias"])


def test_two_threads_trace_at_once():
    barrier, results = threading.Barrier(2), {}

    def run(name):
        layer = Affine(1, name=name)

        def call(x):
            barrier.wait(10)
            return layer(x)

        state = nj.init(call)({}, jnp.ones((1, 2)))
        results[name] = set(nj.pure(call)(state, jnp.ones((1, 2)))[0])

    threads = [threading.Thread(target=run, args=(name,)) for name in ("a", "b")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert results == {name: {f"{name}/kernel", f"{name}/bias"} for name in ("a", "b")}
